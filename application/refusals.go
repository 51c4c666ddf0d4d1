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
	pending map[refusalID]*refusal
}

// fullWindow is what the store last said of a window, and what was refused since.
type fullWindow struct {
	stored    domain.Tally
	since     int64 // units refused from memory that stored does not hold
	end       time.Time
	confirmed time.Time // when the store said so
}

// refusalID is what refused hits share that go into the log as one call.
type refusalID struct {
	window domain.WindowID
	cost   int64
}

// refusal is the hits that were refused alike, the first one's particulars kept.
type refusal struct {
	slot domain.Slot
	hit  domain.Hit
	at   time.Time
	hits int64
}

func (r *refusal) units() int64 { return r.hits * r.hit.Cost }

func newRefusals(maxWindows int) *refusals {
	return &refusals{
		max:     maxWindows,
		full:    make(map[domain.WindowID]*fullWindow),
		pending: make(map[refusalID]*refusal),
	}
}

// answer refuses the hit if every slot is certain to, and notes it to be counted.
func (r *refusals) answer(slots []domain.Slot, hit domain.Hit, at time.Time) (tallies []domain.Tally, certain bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.full) == 0 {
		return nil, false
	}
	for i := range slots {
		if !r.refuses(&slots[i], hit.Cost, at) {
			return nil, false
		}
	}
	tallies = make([]domain.Tally, len(slots))
	for i := range slots {
		tallies[i] = r.note(slots[i], hit, at)
	}
	return tallies, true
}

// refuses reports whether the slot is known to have no room for cost, and whether
// there is room to remember one more refusal.
func (r *refusals) refuses(slot *domain.Slot, cost int64, at time.Time) bool {
	full := r.full[slot.ID()]
	if full == nil || full.stored.Fits(cost, slot.Limit) {
		return false
	}
	if age := at.Sub(full.confirmed); age < 0 || age >= refusalTrust {
		return false
	}
	known := r.pending[refusalID{slot.ID(), cost}]
	if known == nil {
		return len(r.pending) < r.max
	}
	return known.units() <= math.MaxInt64-cost
}

func (r *refusals) note(slot domain.Slot, hit domain.Hit, at time.Time) domain.Tally {
	id := refusalID{slot.ID(), hit.Cost}
	known := r.pending[id]
	if known == nil {
		known = &refusal{slot: slot, hit: hit, at: at}
		r.pending[id] = known
	}
	known.hits++
	if r.outstanding.Add(1) == 1 {
		r.wake()
	}

	full := r.full[id.window]
	full.since += hit.Cost
	tally := full.stored
	tally.Refuse(full.since)
	tally.Refuses = true
	return tally
}

// drain hands over the refusals that wait to be counted.
func (r *refusals) drain() []*refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	drained := make([]*refusal, 0, len(r.pending))
	for _, known := range r.pending {
		drained = append(drained, known)
	}
	clear(r.pending)
	return drained
}

// restore takes back refusals that could not be counted.
func (r *refusals) restore(drained []*refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, lost := range drained {
		id := refusalID{lost.slot.ID(), lost.hit.Cost}
		if newer := r.pending[id]; newer != nil {
			lost.hits += newer.hits
		}
		r.pending[id] = lost
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

// learn remembers or forgets a slot's window by what the store said of it at a
// time; counted is the refused units from memory which that includes.
func (r *refusals) learn(slot *domain.Slot, tally domain.Tally, counted int64, at time.Time) {
	slides := slot.Previous.Den > 0 // what is carried over shrinks, so that no refusal is certain
	isFull := tally.Room(slot.Limit) == 0 && !slides
	if !isFull && counted == 0 && !tally.Refuses {
		return // the common case, without the lock: had it been full before, it would be now
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := slot.ID()
	full := r.full[id]
	switch {
	case slides || !isFull && !tally.Refuses:
		delete(r.full, id)
		return
	case full == nil:
		r.makeRoom(at)
		full = &fullWindow{end: slot.Window.End}
		r.full[id] = full
	}
	tally.Refuses = false
	full.stored, full.confirmed = tally, at
	full.since = max(full.since-counted, 0)
}

// makeRoom lets one window go if the memory is full, one that has ended if a few looks find one.
func (r *refusals) makeRoom(now time.Time) {
	if len(r.full) < r.max {
		return
	}
	var victim domain.WindowID
	looks := 0
	for id, full := range r.full {
		victim = id
		if looks++; looks == 8 || !full.end.After(now) {
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
	for id, full := range r.full {
		if !full.end.After(now) {
			delete(r.full, id)
		}
	}
}
