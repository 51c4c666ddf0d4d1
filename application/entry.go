package application

import (
	"sync"
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
	done  chan struct{} // capacity 1; receives once, when taken and err are set
	timer *time.Timer   // of the caller's wait
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

// entries are made once and used again: a hit would otherwise cost a channel and a timer.
var entries = sync.Pool{New: func() any {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &entry{done: make(chan struct{}, 1), timer: timer}
}}

func newEntry(purpose purpose, hit domain.Hit, slots []domain.Slot, at time.Time) *entry {
	e := entries.Get().(*entry)
	e.purpose, e.hit, e.slots, e.at = purpose, hit, slots, at
	return e
}

// free gives back an entry that is done. One that was abandoned is not: the
// committer may hold it still.
func (e *entry) free() {
	e.hit, e.slots, e.taken, e.err = domain.Hit{}, nil, domain.Taken{}, nil
	e.begun.Store(false)
	entries.Put(e)
}

// begin claims the entry for the committer; false if its caller has given up.
func (e *entry) begin() bool { return e.begun.CompareAndSwap(false, true) }

// finish lets the caller go on.
func (e *entry) finish(err error) {
	e.err = err
	e.done <- struct{}{}
}

// abandon gives up waiting and reports whether it is too late for that, because
// the entry is done. One that has not begun will not be counted.
func (e *entry) abandon() (done bool) {
	if e.begun.CompareAndSwap(false, true) {
		return false
	}
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

func (e *entry) resetCall(slot *domain.Slot) domain.Call {
	return domain.Call{
		Kind: domain.CallReset, At: e.at, Policy: slot.Policy, Key: slot.Key, Allowed: true,
		Method: e.hit.Method, Path: e.hit.Path, RequestID: e.hit.RequestID,
	}
}
