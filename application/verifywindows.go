package application

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// compare compares the windows of the log with the counters. A counter that was read
// when the log had been read up to some call fits if it is what the log has after that
// call, or after one of those that came until the log was read again.
func (r *verification) compare(ctx context.Context) error {
	r.open = map[uint64]*openWindow{}
	lister, lists := r.counter.(domain.WindowLister)
	var err error
	if lists {
		err = r.compareHeld(ctx, lister)
	} else {
		err = r.compareLooked(ctx)
	}
	if err != nil {
		return err
	}
	if err := r.compareHeads(ctx); err != nil {
		return err
	}
	if err := r.compareQuotas(ctx); err != nil {
		return err
	}
	for deadline := time.Now().Add(settleTime); ; {
		if err := r.read(ctx); err != nil {
			return err
		}
		if len(r.open) == 0 || lists || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// compareHeld goes through the windows that the store holds, and then through those that
// it should hold.
func (r *verification) compareHeld(ctx context.Context, lister domain.WindowLister) error {
	var after domain.LedgerWindow
	for {
		page, err := lister.Windows(ctx, after, MaxPage)
		if err != nil {
			return err
		}
		for i := range page {
			after = page[i]
			r.compareOne(&page[i])
			r.checkExpiry(&page[i])
			if window := r.window(page[i].ID()); window != nil {
				window.held = true
			}
		}
		if len(page) < MaxPage {
			break
		}
	}
	now := r.options.Now().Unix()
	var lost []int64
	for _, window := range r.windows {
		if !window.held && window.count > 0 && window.expires > now {
			lost = append(lost, window.last)
		}
	}
	return r.lookUp(ctx, lost, func(call *domain.Call) {
		window := domain.LedgerWindow{Policy: call.Policy, Key: call.Key, Schedule: call.Schedule, Start: call.WindowStart}
		if r.window(window.ID()) != nil { // it was not reset
			r.compareOne(&window)
		}
	})
}

// checkExpiry compares when the store may forget a window with what its schedule says: a
// window that is forgotten too early gives its units back.
func (r *verification) checkExpiry(held *domain.LedgerWindow) {
	schedule, ok := r.schedule(held.Schedule)
	if !ok {
		return
	}
	right := schedule.Expiry(schedule.At(held.Start))
	off := held.Expires.Sub(right).Abs()
	if off == 0 || strings.HasPrefix(held.Schedule, "calendar ") && off <= zoneChange {
		return
	}
	r.fault(Fault{
		Table: "rate_limit_windows", Policy: held.Policy, Key: held.Key, Schedule: held.Schedule, WindowStart: held.Start,
		Detail: fmt.Sprintf("expires_at is %s, it should be %s", held.Expires.UTC().Format(time.RFC3339), right.Format(time.RFC3339)),
	})
}

// zoneChange is how far the end of a calendar period moves, at most, when states change
// the rules of their zones: who wrote the row may have known older ones. It gives nothing
// back: a calendar's window may be forgotten a whole period after its end.
const zoneChange = 3 * time.Hour

// compareLooked looks at the windows that are in the log and have not expired.
func (r *verification) compareLooked(ctx context.Context) error {
	now := r.options.Now().Unix()
	var slots []domain.Slot
	look := func() error {
		tallies, err := r.counter.Look(ctx, slots)
		if err != nil {
			return err
		}
		for i, s := range slots {
			r.compareOne(&domain.LedgerWindow{Policy: s.Policy, Key: s.Key, Schedule: s.Schedule, Start: s.Window.Start, Tally: tallies[i]})
		}
		slots = slots[:0]
		return nil
	}
	for _, window := range r.windows {
		if window.expires <= now || r.window(*window.id) != window {
			continue
		}
		schedule, _ := r.schedule(window.id.Schedule)
		slots = append(slots, domain.Slot{
			Policy: window.id.Policy, Key: window.id.Key, Schedule: window.id.Schedule,
			Window: schedule.At(time.Unix(window.id.Start, 0)), Expires: time.Unix(window.expires, 0).UTC(),
		})
		if len(slots) == MaxPage {
			if err := look(); err != nil {
				return err
			}
		}
	}
	return look()
}

func (r *verification) compareOne(held *domain.LedgerWindow) {
	window := r.window(held.ID())
	if window == nil {
		window = &auditedWindow{uncovered: held.Start.Before(r.legacy) || held.Expires.Unix() < r.over || held.Start.Before(r.pruned.of[held.Policy].At)}
	}
	r.found.Windows++
	if r.options.Apart && r.resets[r.hash(held.Policy, held.Key)] > 0 {
		r.found.Uncovered++
		return
	}
	switch {
	case window.uncovered || r.mayLack(held):
		r.found.Uncovered++
		if held.Tally.Count >= window.count && held.Tally.Refused >= window.refused {
			return
		}
	case held.Tally.Count == window.count && held.Tally.Refused == window.refused:
		return
	}
	r.open[r.hashWindow(held.ID())] = &openWindow{*held, window.count, window.refused}
}

// mayLack reports whether the log may lack hits of a window because it had a part.
func (r *verification) mayLack(held *domain.LedgerWindow) bool {
	return r.inPart(held.Policy, held.Start, r.endOf(held.Schedule, held.Start))
}

// endOf is the end of a window, as far as it is known.
func (r *verification) endOf(schedule string, start time.Time) time.Time {
	if s, ok := r.schedule(schedule); ok {
		return s.At(start).End
	}
	return farAway
}

// finish makes faults of what still does not fit.
func (r *verification) finish(ctx context.Context) error {
	if err := r.checkEnds(ctx); err != nil {
		return err
	}
	open := make([]*openWindow, 0, len(r.open))
	for _, o := range r.open {
		open = append(open, o)
	}
	slices.SortFunc(open, func(a, b *openWindow) int { return a.window.ID().Compare(b.window.ID()) })
	for _, o := range open {
		w := &o.window
		detail := fmt.Sprintf("count is %d and refused %d, and the log has no call of the window", w.Tally.Count, w.Tally.Refused)
		var id int64
		if window := r.window(w.ID()); window != nil {
			id = window.last
			detail = fmt.Sprintf("count is %d and refused %d, and by the log, after call %d, they are %d and %d", w.Tally.Count, w.Tally.Refused, window.last, window.count, window.refused)
		}
		r.suspect(suspect{Fault{Table: "rate_limit_windows", ID: id, Policy: w.Policy, Key: w.Key, Schedule: w.Schedule, WindowStart: w.Start, Detail: detail}, w.Policy, id, 0, true})
	}
	return r.judge(ctx)
}

// checkEnds looks for calls that are missing at the end of the log and of its chains.
func (r *verification) checkEnds(ctx context.Context) error {
	if gapless, ok := r.log.(domain.Gapless); ok {
		last, err := gapless.LastID(ctx)
		if err != nil {
			return err
		}
		if err := r.read(ctx); err != nil { // calls that came meanwhile
			return err
		}
		r.checkID(max(last, r.found.Through) + 1)
	}
	for name, head := range r.found.Heads {
		if c := r.chains[name]; !c.reached && (r.pruned.of[name].Through <= c.last || r.pruned.of[name].Hash != head) {
			fault := Fault{Table: "api_calls", Policy: name, Detail: "the last calls of the chain" + ofChain(name) + " are missing: it goes on after the last one that is there"}
			if name == "" {
				r.fault(fault)
			} else {
				r.suspect(suspect{fault, name, c.last, 0, false})
			}
		}
	}
	for name, hash := range r.expected.Noted {
		if c := r.chainOf(name); !c.noted && r.pruned.of[name].Hash != hash {
			r.fault(Fault{Table: "api_calls", Policy: name, Detail: "no call has the hash that was noted of the chain" + ofChain(name) + ": calls from before then were changed, or have been pruned since"})
		}
	}
	return nil
}

// judge makes faults of suspects, but for what was pruned since the reading began.
func (r *verification) judge(ctx context.Context) error {
	now, err := r.readPrunes(ctx)
	if err != nil {
		return err
	}
	r.found.Pruned = now.removed
	r.parts = map[string][]partialSpan{}
	if err := r.findParts(ctx); err != nil {
		return err
	}
	for _, s := range r.suspects {
		through, before := now.of[s.policy].Through, r.pruned.of[s.policy].Through
		if s.policy == "" {
			through, before = now.through, r.pruned.through
		}
		if through > before && through > s.beyond {
			r.missing += s.ids
			continue
		}
		if s.sums && r.inPart(s.Policy, s.WindowStart, r.endOf(s.Schedule, s.WindowStart)) {
			r.found.Uncovered++
			continue
		}
		r.fault(s.Fault)
	}
	// Of what was pruned meanwhile some calls had been read.
	if r.found.Gapless && (r.missing < r.pruned.removed || r.missing > now.removed) {
		r.fault(Fault{Table: "api_calls", Detail: fmt.Sprintf("of the calls up to %d, %d are missing, and %d were pruned", now.through, r.missing, now.removed)})
	}
	return nil
}
