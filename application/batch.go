package application

import (
	"sync/atomic"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// entry is something that waits for the committer.
type entry struct {
	purpose purpose
	hit     domain.Hit
	slots   []domain.Slot
	at      time.Time

	begun atomic.Bool   // set by whoever is first: the committer that begins, the caller that gives up
	done  chan struct{} // closed once taken and err are set
	taken domain.Taken
	err   error
}

// purpose is what an entry waits for.
type purpose int

const (
	forHit purpose = iota
	forReset
	forSync
)

func newEntry(purpose purpose, hit domain.Hit, slots []domain.Slot, at time.Time) *entry {
	return &entry{purpose: purpose, hit: hit, slots: slots, at: at, done: make(chan struct{})}
}

// begin claims the entry for the committer; false if its caller has given up.
func (e *entry) begin() bool { return e.begun.CompareAndSwap(false, true) }

// finish lets the caller go on.
func (e *entry) finish() { close(e.done) }

// abandon gives up waiting for reason. An entry that has not begun is dropped,
// uncounted; one that just finished gives its answer after all. Without an error
// the entry is finished and taken may be read.
func (e *entry) abandon(reason error) error {
	if e.begun.CompareAndSwap(false, true) {
		return reason
	}
	select {
	case <-e.done:
		return e.err
	default:
		return reason
	}
}

func (e *entry) resetCall(slot domain.Slot) domain.Call {
	return domain.Call{
		Kind: domain.CallReset, At: e.at, Policy: slot.Policy, Key: slot.Key, Allowed: true,
		Method: e.hit.Method, Path: e.hit.Path, RequestID: e.hit.RequestID,
	}
}

// batch is what one commit decides: hits in order of arrival, then refusals that
// were answered from memory.
type batch struct {
	takes   []domain.Take
	taken   []domain.Taken // of takes, once the store has answered
	entries []*entry       // of the first takes
	refused []*refusal     // of the others
}

func newBatch(size int) *batch {
	return &batch{takes: make([]domain.Take, 0, size), entries: make([]*entry, 0, size)}
}

func (b *batch) addHit(e *entry) {
	b.entries = append(b.entries, e)
	b.takes = append(b.takes, domain.Take{Slots: e.slots, Cost: e.hit.Cost})
}

// addRefusal comes after all addHit.
func (b *batch) addRefusal(known *refusal) {
	b.refused = append(b.refused, known)
	b.takes = append(b.takes, domain.Take{Slots: []domain.Slot{known.slot}, Cost: known.units(), Refused: true})
}

// calls is what the log is to remember of the batch: a call for each policy of a
// hit that was allowed; for one that was refused, a call for each policy that
// refused, shared by all that were refused alike.
func (b *batch) calls() []domain.Call {
	calls := make([]domain.Call, 0, len(b.takes)+1)
	var shared map[refusalID]int
	add := func(slot *domain.Slot, tally domain.Tally, allowed bool, hit *domain.Hit, at time.Time, hits int64) {
		if !allowed {
			id := refusalID{slot.ID(), hit.Cost}
			if i, ok := shared[id]; ok {
				calls[i].Hits += hits
				calls[i].Count, calls[i].Refused = tally.Count, tally.Refused
				return
			}
			if shared == nil {
				shared = make(map[refusalID]int)
			}
			shared[id] = len(calls)
		}
		calls = append(calls, domain.Call{
			Kind: domain.CallHit, At: at, Policy: slot.Policy, Key: slot.Key, Cost: hit.Cost, Hits: hits,
			Allowed: allowed, Count: tally.Count, Refused: tally.Refused, Limit: slot.Limit,
			WindowStart: slot.Window.Start, Method: hit.Method, Path: hit.Path, RequestID: hit.RequestID,
		})
	}
	for i, e := range b.entries {
		taken := &b.taken[i]
		for j := range e.slots {
			if taken.Allowed || taken.Tallies[j].Refuses {
				add(&e.slots[j], taken.Tallies[j], taken.Allowed, &e.hit, e.at, 1)
			}
		}
	}
	for i, known := range b.refused {
		add(&known.slot, b.taken[len(b.entries)+i].Tallies[0], false, &known.hit, known.at, known.hits)
	}
	return calls
}

// tell passes the outcome to everyone who waits, and to the memory of refusals
// what the store said at a time.
func (b *batch) tell(err error, refusals *refusals, at time.Time) {
	if err == nil {
		for i := range b.takes {
			var counted int64
			if b.takes[i].Refused {
				counted = b.takes[i].Cost
			}
			for j := range b.takes[i].Slots {
				refusals.learn(&b.takes[i].Slots[j], b.taken[i].Tallies[j], counted, at)
			}
		}
	}
	for i, e := range b.entries {
		if err == nil {
			e.taken = b.taken[i]
		}
		e.err = err
		e.finish()
	}
}
