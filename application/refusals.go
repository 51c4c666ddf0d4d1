package application

import (
	"math"
	"slices"
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
	size        atomic.Int64 // of full, to be read without the lock

	mu      sync.Mutex
	full    map[domain.WindowID]*fullWindow
	pending []*refusal // in the order in which the first of each was answered
	closed  bool       // nothing is answered any more
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
	if r.size.Load() == 0 {
		return false
	}
	var few [4]*fullWindow // most hits have one slot
	windows := few[:0]
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
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
	return r.drainLocked()
}

// close hands over the last refusals: from now on none is answered.
func (r *refusals) close() []*refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.drainLocked()
}

func (r *refusals) drainLocked() []*refusal {
	drained := slices.DeleteFunc(r.pending, func(known *refusal) bool { return known.hits == 0 })
	r.pending = nil
	for _, known := range drained {
		if window := r.full[known.slot.ID()]; window != nil {
			window.pending = nil
		}
	}
	return drained
}

// drainOf hands over the refusals on the slots of the entries, so that they are
// counted before the entries are: the counter of a key follows the order of answers.
func (r *refusals) drainOf(entries []*entry) (drained []*refusal) {
	if r.outstanding.Load() == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		for i := range e.slots {
			window := r.full[e.slots[i].ID()]
			if window == nil {
				continue
			}
			for _, known := range window.pending {
				taken := *known
				drained = append(drained, &taken)
				known.hits = 0 // what remains in r.pending is nothing
			}
			window.pending = nil
		}
	}
	return drained
}

// restore takes back refusals that could not be counted.
func (r *refusals) restore(drained []*refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(slices.Clone(drained), r.pending...)
	for _, lost := range drained {
		if window := r.full[lost.slot.ID()]; window != nil {
			window.pending = append(window.pending, lost)
		}
	}
}

// counted is told that the store has counted the refusals.
func (r *refusals) counted(drained []*refusal) {
	var hits int64
	for _, known := range drained {
		hits += known.hits
	}
	r.outstanding.Add(-hits)
}

// learn is told what the store said of a slot's window, at a time, after a take of
// cost. counted is the units refused from memory that it counted.
func (r *refusals) learn(slot *domain.Slot, tally domain.Tally, cost, counted int64, at time.Time) {
	slides := slot.Previous.Den > 0 // what is carried over shrinks, so that no refusal is certain
	full := !slides && !tally.Fits(cost, slot.Limit)
	if !full && r.size.Load() == 0 {
		return // the common case, without the lock
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := slot.ID()
	window := r.full[id]
	if window == nil {
		if !full || !r.makeRoom(at) {
			return
		}
		window = &fullWindow{end: slot.Window.End}
		r.full[id] = window
		r.size.Store(int64(len(r.full)))
	}
	tally.Refuses = false
	window.stored, window.confirmed = tally, at
	window.since = max(window.since-counted, 0)
}

// makeRoom lets one window go if the memory is full, one that has ended if a few
// looks find one. It fails if they find only windows with refusals to be counted.
func (r *refusals) makeRoom(now time.Time) bool {
	if len(r.full) < r.max {
		return true
	}
	looks, found := 0, false
	var victim domain.WindowID
	for id, window := range r.full {
		if len(window.pending) == 0 {
			victim, found = id, true
			if !window.end.After(now) {
				break
			}
		}
		if looks++; looks == 8 {
			break
		}
	}
	delete(r.full, victim)
	return found
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
	r.size.Store(int64(len(r.full)))
}

// forgetEnded lets go of the windows that have ended.
func (r *refusals) forgetEnded(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, window := range r.full {
		if !window.end.After(now) && len(window.pending) == 0 {
			delete(r.full, id)
		}
	}
	r.size.Store(int64(len(r.full)))
}
