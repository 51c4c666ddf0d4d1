package application

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

const (
	// refusalTrust is how long a full window is believed to be full without a word
	// from the store. It bounds how long a reset through another process goes unseen.
	refusalTrust = time.Second
	// refusalCosts is how many different costs are refused from memory in one window
	// before the store is asked.
	refusalCosts = 16
)

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

	mu     sync.Mutex
	full   map[domain.WindowID]*fullWindow
	dirty  []*fullWindow // those with pending refusals, each once, in the order in which they got one
	closed bool          // nothing is answered any more
}

// fullWindow is what the store last said of a window, and what was refused since.
type fullWindow struct {
	stored    domain.Tally
	since     int64 // units refused from memory that stored does not hold
	end       time.Time
	confirmed time.Time  // when the store said so
	pending   []*refusal // to be counted, one for each cost
	dirty     bool       // it is in the list
}

// refusal is the hits on one window that were refused alike, the particulars of
// the first one kept. It becomes one call.
type refusal struct {
	slot domain.Slot
	hit  domain.Hit
	at   time.Time
	hits int64
}

func (r *refusal) cost() int64 { return r.hits * r.hit.Cost }

func newRefusals(maxWindows int, wake func()) *refusals {
	return &refusals{max: maxWindows, wake: wake, full: make(map[domain.WindowID]*fullWindow)}
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
	if r.closed || len(r.dirty) >= r.max {
		return false
	}
	for i := range slots {
		window := r.full[slots[i].ID()]
		if window == nil || !window.refuses(&slots[i], hit.Cost, at) {
			return false
		}
		windows = append(windows, window)
	}
	for i, window := range windows {
		if known := window.find(hit.Cost); known != nil {
			known.hits++
		} else {
			window.pending = append(window.pending, &refusal{slot: slots[i], hit: *hit, at: at, hits: 1})
			r.mark(window)
		}
		window.since += hit.Cost
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
	if age < -refusalTrust {
		w.confirmed = time.Time{} // the clock was set back: what it said before means nothing
	}
	return age >= 0 && age < refusalTrust && !w.stored.Fits(cost, slot.Limit) && w.since <= math.MaxInt64-cost &&
		(len(w.pending) < refusalCosts || w.find(cost) != nil)
}

// find is the pending refusal of that cost, or nil.
func (w *fullWindow) find(cost int64) *refusal {
	for _, known := range w.pending {
		if known.hit.Cost == cost {
			return known
		}
	}
	return nil
}

// mark puts the window into the list.
func (r *refusals) mark(window *fullWindow) {
	if !window.dirty {
		window.dirty = true
		r.dirty = append(r.dirty, window)
	}
}

// drain hands over refusals that wait to be counted, the oldest first, of at most
// so many windows.
func (r *refusals) drain(windows int) (drained []*refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(windows, len(r.dirty))
	for _, window := range r.dirty[:n] {
		drained = append(drained, window.pending...)
		window.pending, window.dirty = nil, false
	}
	rest := copy(r.dirty, r.dirty[n:])
	clear(r.dirty[rest:])
	r.dirty = r.dirty[:rest]
	return drained
}

// waiting is how many windows have refusals that wait to be counted.
func (r *refusals) waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.dirty)
}

// close makes answer refuse to answer.
func (r *refusals) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
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
			if window := r.full[e.slots[i].ID()]; window != nil {
				drained = append(drained, window.pending...)
				window.pending = nil // it stays in the list, once
			}
		}
	}
	return drained
}

// restore takes back refusals that could not be counted.
func (r *refusals) restore(drained []*refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, lost := range drained {
		id := lost.slot.ID()
		window := r.full[id]
		if window == nil { // not to be believed, only to keep the refusal
			window = &fullWindow{end: lost.slot.Window.End, since: lost.cost()}
			r.full[id] = window
		}
		if known := window.find(lost.hit.Cost); known != nil {
			known.hits += lost.hits
		} else {
			window.pending = append(window.pending, lost)
		}
		r.mark(window)
	}
	r.size.Store(int64(len(r.full)))
}

// settled is told that the refusals have been counted, or never will be.
func (r *refusals) settled(drained []*refusal) {
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
		if !window.dirty {
			victim, found = id, true
			if !window.end.After(now) {
				break
			}
		}
		if looks++; looks == 8 {
			break
		}
	}
	if found {
		delete(r.full, victim)
	}
	return found && len(r.full) < r.max
}

// forget lets go of all windows of key under policy. Refusals that are pending stay so.
func (r *refusals) forget(policy, key string) {
	r.forgetIf(func(id domain.WindowID, _ *fullWindow) bool { return id.Policy == policy && id.Key == key })
}

// forgetEnded lets go of the windows that have ended.
func (r *refusals) forgetEnded(now time.Time) {
	r.forgetIf(func(_ domain.WindowID, window *fullWindow) bool { return !window.end.After(now) && !window.dirty })
}

func (r *refusals) forgetIf(gone func(domain.WindowID, *fullWindow) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, window := range r.full {
		if gone(id, window) {
			delete(r.full, id)
		}
	}
	r.size.Store(int64(len(r.full)))
}
