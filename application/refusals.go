package application

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// refusalTrust is how long a full window is believed to be full without a word
// from the store. It bounds how long a reset through another process goes unseen.
const refusalTrust = time.Second

// refusals answers hits that are certain to be refused, and keeps the answers
// until a commit counts them.
//
// What is used in a window only grows, so a window without room has none until it
// ends, unless it is reset. The memory is bounded: a full window that was
// forgotten costs a trip to the store, never a wrong answer.
type refusals struct {
	max         int
	wake        func()       // called when the first refusal is outstanding
	outstanding atomic.Int64 // refusals answered and not yet counted in the store

	mu      sync.Mutex
	full    map[domain.WindowID]*fullWindow
	pending []*refusal // in the order in which the first of each was answered
}

// fullWindow is what the store last said of a window, and what was refused since.
type fullWindow struct {
	stored    domain.Tally
	since     int64 // units refused from memory that stored does not hold
	end       time.Time
	confirmed time.Time  // when the store said so
	pending   []*refusal // those of this window, one for each cost
}

// refusal is the hits on one window that were refused alike, the particulars of
// the first one kept. It becomes one call.
type refusal struct {
	slot domain.Slot
	hit  domain.Hit
	at   time.Time
	hits int64
}

func (r *refusal) units() int64 { return r.hits * r.hit.Cost }

func newRefusals(maxWindows int) *refusals {
	return &refusals{max: maxWindows, wake: func() {}, full: make(map[domain.WindowID]*fullWindow)}
}

// answer refuses the hit if every slot is certain to: it sets the tally of each
// policy, the slots' in their order, and notes the refusal to be counted.
func (r *refusals) answer(slots []domain.Slot, hit *domain.Hit, at time.Time, policies []domain.PolicyDecision) (certain bool) {
	var few [4]*fullWindow // most hits have one slot
	windows := few[:0]
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range slots {
		window := r.full[slots[i].ID()]
		if window == nil || !window.refuses(&slots[i], hit.Cost, at) || len(r.pending) >= r.max {
			return false
		}
		windows = append(windows, window)
	}
	for i, window := range windows {
		if fresh := window.note(&slots[i], hit, at); fresh != nil {
			r.pending = append(r.pending, fresh)
		}
		tally := window.stored
		tally.Refuse(window.since)
		tally.Refuses = true
		policies[i].Tally = tally
	}
	if n := int64(len(slots)); r.outstanding.Add(n) == n {
		r.wake()
	}
	return true
}

// refuses reports whether the window is known to have no room for cost.
func (w *fullWindow) refuses(slot *domain.Slot, cost int64, at time.Time) bool {
	age := at.Sub(w.confirmed)
	return age >= 0 && age < refusalTrust && !w.stored.Fits(cost, slot.Limit) && w.since <= math.MaxInt64-cost
}

// note counts one refusal more. It returns the refusal if it is the first of its kind.
func (w *fullWindow) note(slot *domain.Slot, hit *domain.Hit, at time.Time) (fresh *refusal) {
	w.since += hit.Cost
	for _, known := range w.pending {
		if known.hit.Cost == hit.Cost {
			known.hits++
			return nil
		}
	}
	fresh = &refusal{slot: *slot, hit: *hit, at: at, hits: 1}
	w.pending = append(w.pending, fresh)
	return fresh
}

// drain hands over the refusals that wait to be counted.
func (r *refusals) drain() []*refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	drained := r.pending
	r.pending = nil
	for _, known := range drained {
		if window := r.full[known.slot.ID()]; window != nil {
			window.pending = nil
		}
	}
	return drained
}

// restore takes back refusals that could not be counted.
func (r *refusals) restore(drained []*refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(drained, r.pending...)
}

// counted is told that the store has counted the refusals.
func (r *refusals) counted(drained []*refusal) {
	var hits int64
	for _, known := range drained {
		hits += known.hits
	}
	r.outstanding.Add(-hits)
}

// learn remembers or forgets a slot's window by what the store said of it after a
// take of cost, at a time. counted is the units refused from memory that it counted.
func (r *refusals) learn(slot *domain.Slot, tally domain.Tally, cost, counted int64, at time.Time) {
	slides := slot.Previous.Den > 0 // what is carried over shrinks, so that no refusal is certain
	full := !slides && !tally.Fits(cost, slot.Limit)
	if !full && counted == 0 {
		return // the common case, without the lock; what is known and not true any more grows old
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := slot.ID()
	if !full { // it was reset through another process
		delete(r.full, id)
		return
	}
	window := r.full[id]
	if window == nil {
		r.makeRoom(at)
		window = &fullWindow{end: slot.Window.End}
		r.full[id] = window
	}
	tally.Refuses = false
	window.stored, window.confirmed = tally, at
	window.since = max(window.since-counted, 0)
}

// makeRoom lets one window go if the memory is full, one that has ended if a few looks find one.
func (r *refusals) makeRoom(now time.Time) {
	if len(r.full) < r.max {
		return
	}
	var victim domain.WindowID
	looks := 0
	for id, window := range r.full {
		victim = id
		if looks++; looks == 8 || !window.end.After(now) {
			break
		}
	}
	delete(r.full, victim)
}

// forget lets go of all windows of key under policy.
func (r *refusals) forget(policy, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.full {
		if id.Policy == policy && id.Key == key {
			delete(r.full, id)
		}
	}
}

// forgetEnded lets go of the windows that have ended.
func (r *refusals) forgetEnded(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, window := range r.full {
		if !window.end.After(now) {
			delete(r.full, id)
		}
	}
}
