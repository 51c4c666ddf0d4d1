package application

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// batch is what one commit decides: refusals that were answered from memory, then
// hits in order of arrival. The committer uses one batch over and over.
type batch struct {
	takes    []domain.Take
	taken    []domain.Taken // of takes, once the store has answered
	refusals []*refusal     // of the first takes
	entries  []*entry       // of the others
	calls    []domain.Call
	shared   map[domain.WindowID]int // the last call of a window, if it is of refused hits
	random   func() float64          // see domain.Audit.Logged
}

// clear empties the batch and keeps its memory.
func (b *batch) clear() {
	clear(b.takes)
	clear(b.entries)
	clear(b.refusals)
	clear(b.calls)
	b.takes, b.taken, b.entries, b.refusals, b.calls = b.takes[:0], nil, b.entries[:0], b.refusals[:0], b.calls[:0]
}

// addRefusals comes before all addHit.
func (b *batch) addRefusals(drained []*refusal) {
	slots := make([]domain.Slot, len(drained))
	for i, known := range drained {
		slots[i] = known.slot
		b.refusals = append(b.refusals, known)
		b.takes = append(b.takes, domain.Take{Slots: slots[i : i+1], Cost: known.cost(), Refused: true})
	}
}

func (b *batch) addHit(e *entry) {
	b.entries = append(b.entries, e)
	b.takes = append(b.takes, domain.Take{Slots: e.slots, Cost: e.hit.Cost})
}

// dropLate takes out what waited until after its window expired: the store may
// have forgotten the window, and would begin it anew. Such hits are answered,
// uncounted; such refusals are returned.
func (b *batch) dropLate(now time.Time) (late []*refusal) {
	isLate := func(take domain.Take) bool {
		return slices.ContainsFunc(take.Slots, func(slot domain.Slot) bool { return !now.Before(slot.Expires) })
	}
	if !slices.ContainsFunc(b.takes, isLate) {
		return nil
	}
	takes, refusals, entries := b.takes, b.refusals, b.entries
	b.takes, b.refusals, b.entries = nil, nil, nil
	for i, known := range refusals {
		if isLate(takes[i]) {
			late = append(late, known)
			continue
		}
		b.refusals = append(b.refusals, known)
		b.takes = append(b.takes, takes[i])
	}
	for i, e := range entries {
		if take := takes[len(refusals)+i]; isLate(take) {
			e.finish(domain.Taken{}, fmt.Errorf("the window was over before the hit could be decided: %w", domain.ErrUnavailable))
		} else {
			b.entries = append(b.entries, e)
			b.takes = append(b.takes, take)
		}
	}
	return late
}

// settle takes from the counter and makes the calls that the log is to remember:
// one for each policy that was charged, and one for each policy that refused,
// shared by those that were refused alike one after the other. Of policies that are not logged in full
// only some hits are in them; a hit is drawn once for all its policies.
func (b *batch) settle(ctx context.Context, counter domain.Counter) (err error) {
	b.calls = b.calls[:0]
	clear(b.shared)
	if len(b.takes) == 0 {
		return nil
	}
	if b.taken, err = counter.Take(ctx, b.takes); err != nil {
		return err
	}
	for i, known := range b.refusals {
		hits, coverage := known.logging.of(known.slot.Policy, known.hits, false, b.draw(known.logging))
		b.addRefused(&known.slot, b.taken[i].Tallies[0], &known.hit, known.at, hits, coverage)
	}
	for i, e := range b.entries {
		taken, draw := &b.taken[len(b.refusals)+i], b.draw(e.logging)
		for j := range e.slots {
			refused := taken.Tallies[j].Refuses
			if !refused && !taken.Allowed {
				continue // not charged
			}
			hits, coverage := e.logging.of(e.slots[j].Policy, 1, !refused, draw)
			switch {
			case refused:
				b.addRefused(&e.slots[j], taken.Tallies[j], &e.hit, e.at, hits, coverage)
			case hits > 0:
				b.addCall(&e.slots[j], taken.Tallies[j], true, &e.hit, e.at, hits, coverage)
			}
		}
	}
	return nil
}

// draw is a random number where the logging needs one.
func (b *batch) draw(logging *logging) float64 {
	if logging == nil {
		return 0
	}
	return b.random()
}

func (b *batch) addRefused(slot *domain.Slot, tally domain.Tally, hit *domain.Hit, at time.Time, hits int64, coverage string) {
	if hits == 0 {
		return
	}
	id := slot.ID()
	if i, known := b.shared[id]; known {
		// Only the last call of the window: what it tells of the window is after its hits.
		if last := &b.calls[i]; last.Cost == hit.Cost && last.Limit == slot.Limit && last.Shadow == slot.Shadow && last.Coverage == coverage {
			last.Hits += hits
			last.Count, last.Refused = tally.Count, tally.Refused
			return
		}
	}
	b.addCall(slot, tally, false, hit, at, hits, coverage)
	if b.shared == nil {
		b.shared = make(map[domain.WindowID]int)
	}
	b.shared[id] = len(b.calls) - 1
}

func (b *batch) addCall(slot *domain.Slot, tally domain.Tally, allowed bool, hit *domain.Hit, at time.Time, hits int64, coverage string) {
	if len(b.shared) > 0 {
		delete(b.shared, slot.ID())
	}
	b.calls = append(b.calls, domain.Call{
		Kind: domain.CallHit, At: at, Policy: slot.Policy, Key: slot.Key, Cost: hit.Cost, Hits: hits,
		Allowed: allowed, Shadow: slot.Shadow, Count: tally.Count, Refused: tally.Refused, Limit: slot.Limit,
		WindowStart: slot.Window.Start, Schedule: slot.Schedule, Coverage: coverage, Origin: hit.Origin,
	})
}

// teach tells the memory of refusals what the store said at a time.
func (b *batch) teach(refusals *refusals, at time.Time) {
	for i, known := range b.refusals {
		refusals.learn(&known.slot, b.taken[i].Tallies[0], true, known.hit.Cost, known.cost(), at)
	}
	for i, e := range b.entries {
		taken := &b.taken[len(b.refusals)+i]
		for j := range e.slots {
			refusals.learn(&e.slots[j], taken.Tallies[j], !taken.Allowed, e.hit.Cost, 0, at)
		}
	}
}

// answer lets everyone who waits go on. From here on the entries are theirs. An
// error that nobody is there to hear is reported.
func (b *batch) answer(err error, report func(error)) {
	heard := len(b.entries) == 0 && len(b.refusals) == 0
	for i, e := range b.entries {
		var taken domain.Taken
		if err == nil {
			taken = b.taken[len(b.refusals)+i]
		}
		heard = e.finish(taken, err) || heard
	}
	if err != nil && !heard {
		report(err)
	}
}
