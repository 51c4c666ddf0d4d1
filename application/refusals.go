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
// ends, or until enough of the window before has slid out of it, unless it is reset.
// One such window makes the refusal certain; what the hit's other windows hold must
// be known too, to be told and to know whether they refuse as well. The memory is
// bounded: what was forgotten costs a trip to the store, never a wrong answer.
type refusals struct {
	max         int
	wake        func()       // called when the first refusal is outstanding
	outstanding atomic.Int64 // refusals answered and not yet counted in the store
	size        atomic.Int64 // of known, to be read without the lock

	mu     sync.Mutex
	known  map[domain.WindowID]*knownWindow
	dirty  []*knownWindow // those with pending refusals, each once, in the order in which they got one
	closed bool           // nothing is answered any more
}

// knownWindow is what the store last said of a window, and what was refused since.
type knownWindow struct {
	stored    domain.Tally
	since     int64 // units refused from memory that stored does not hold
	end       time.Time
	confirmed time.Time  // when the store said so
	pending   []*refusal // to be counted, one for each cost, and way of logging
	dirty     bool       // it is in the list
}

// refusal is the hits on one window that were refused alike, the particulars of
// the first one kept. It becomes one call.
type refusal struct {
	slot    domain.Slot
	hit     domain.Hit
	at      time.Time
	logging *logging
	hits    int64
}

func (r *refusal) cost() int64 { return r.hits * r.hit.Cost }

func newRefusals(maxWindows int, wake func()) *refusals {
	return &refusals{max: maxWindows, wake: wake, known: make(map[domain.WindowID]*knownWindow)}
}

// answer refuses the hit if that is certain: it sets the tally of each policy, the
// slots' in their order, and notes the refusal to be counted where it is one.
func (r *refusals) answer(slots []domain.Slot, hit *domain.Hit, at time.Time, logging *logging, policies []domain.PolicyDecision) (certain bool) {
	if r.size.Load() == 0 {
		return false
	}
	var few [4]*knownWindow // most hits have one slot
	windows := few[:0]
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.dirty) >= r.max {
		return false
	}
	for i := range slots {
		window := r.known[slots[i].ID()]
		if window == nil || !window.believed(at) {
			return false
		}
		p := &policies[i]
		p.Tally = window.tally(&slots[i])
		p.Refuses = !p.Fits(hit.Cost, slots[i].Limit)
		if p.Refuses && !window.takes(hit.Cost, logging) {
			return false
		}
		certain = certain || p.Refuses && !slots[i].Shadow
		windows = append(windows, window)
	}
	if !certain {
		return false
	}
	var noted int64
	for i, window := range windows {
		if !policies[i].Refuses {
			continue
		}
		if known := window.find(hit.Cost, logging); known != nil {
			known.hits++
		} else {
			window.pending = append(window.pending, &refusal{slot: slots[i], hit: *hit, at: at, logging: logging, hits: 1})
			r.mark(window)
		}
		window.since += hit.Cost
		policies[i].Refuse(hit.Cost)
		noted++
	}
	if r.outstanding.Add(noted) == noted {
		r.wake()
	}
	return true
}

// believed reports whether the store's word is young enough.
func (w *knownWindow) believed(at time.Time) bool {
	age := at.Sub(w.confirmed)
	if age < -refusalTrust {
		w.confirmed = time.Time{} // the clock was set back: what it said before means nothing
	}
	return age >= 0 && age < refusalTrust
}

// tally is what the window holds for a slot: the store's word, what was refused
// since, and as much of the window before as weighs in now.
func (w *knownWindow) tally(slot *domain.Slot) domain.Tally {
	tally := w.stored
	tally.Refuse(w.since)
	tally.Carry = slot.Previous.Carry(tally.Previous)
	return tally
}

// takes reports whether a refusal of that cost can be noted.
func (w *knownWindow) takes(cost int64, logging *logging) bool {
	return w.since <= math.MaxInt64-cost && (len(w.pending) < refusalCosts || w.find(cost, logging) != nil)
}

// find is the pending refusal of that cost that is logged in that way, or nil.
func (w *knownWindow) find(cost int64, logging *logging) *refusal {
	for _, known := range w.pending {
		if known.hit.Cost == cost && known.logging == logging {
			return known
		}
	}
	return nil
}

// mark puts the window into the list.
func (r *refusals) mark(window *knownWindow) {
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
			if window := r.known[e.slots[i].ID()]; window != nil {
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
		window := r.known[id]
		if window == nil { // not to be believed, only to keep the refusal
			window = &knownWindow{end: lost.slot.Window.End, since: lost.cost()}
			r.known[id] = window
		}
		if known := window.find(lost.hit.Cost, lost.logging); known != nil {
			known.hits += lost.hits
		} else {
			window.pending = append(window.pending, lost)
		}
		r.mark(window)
	}
	r.size.Store(int64(len(r.known)))
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
// cost. counted is the units refused from memory that it counted. The window is
// remembered if it is full, or if the take was refused.
func (r *refusals) learn(slot *domain.Slot, tally domain.Tally, refused bool, cost, counted int64, at time.Time) {
	remember := refused || !slot.Shadow && !tally.Fits(cost, slot.Limit)
	if !remember && r.size.Load() == 0 {
		return // the common case, without the lock
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := slot.ID()
	window := r.known[id]
	if window == nil {
		if !remember || !r.makeRoom(at) {
			return
		}
		window = &knownWindow{end: slot.Window.End}
		r.known[id] = window
		r.size.Store(int64(len(r.known)))
	}
	tally.Refuses = false
	window.stored, window.confirmed = tally, at
	window.since = max(window.since-counted, 0)
}

// makeRoom lets one window go if the memory is full, one that has ended if a few
// looks find one. It fails if they find only windows with refusals to be counted.
func (r *refusals) makeRoom(now time.Time) bool {
	if len(r.known) < r.max {
		return true
	}
	looks, found := 0, false
	var victim domain.WindowID
	for id, window := range r.known {
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
		delete(r.known, victim)
	}
	return found && len(r.known) < r.max
}

// forget lets go of all windows of key under policy. Refusals that are pending stay so.
func (r *refusals) forget(policy, key string) {
	r.forgetIf(func(id domain.WindowID, _ *knownWindow) bool { return id.Policy == policy && id.Key == key })
}

// forgetEnded lets go of the windows that have ended.
func (r *refusals) forgetEnded(now time.Time) {
	r.forgetIf(func(_ domain.WindowID, window *knownWindow) bool { return !window.end.After(now) && !window.dirty })
}

func (r *refusals) forgetIf(gone func(domain.WindowID, *knownWindow) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, window := range r.known {
		if gone(id, window) {
			delete(r.known, id)
		}
	}
	r.size.Store(int64(len(r.known)))
}
