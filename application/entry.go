package application

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// entry is something that waits for the committer. It is answered once: by the
// committer, or by whoever gives up on it before.
type entry struct {
	purpose purpose
	hit     domain.Hit
	slots   []domain.Slot
	at      time.Time

	deadline atomic.Int64  // when to give up, see watch; wall clock, in nanoseconds
	state    atomic.Int32  // waiting, begun, answered
	done     chan struct{} // capacity 1; receives when taken and err are set
	taken    domain.Taken
	err      error
	gaveUp   bool // the committer may hold the entry still
}

// purpose is what an entry waits for.
type purpose int

const (
	forHit purpose = iota
	forReset
	forSync
)

// The states of an entry, in their order.
const (
	answered int32 = iota // or not in use
	waiting
	begun
)

// entries are used again: a hit would otherwise cost a channel.
var entries = sync.Pool{New: func() any { return &entry{done: make(chan struct{}, 1)} }}

func newEntry(purpose purpose, hit domain.Hit, slots []domain.Slot, at time.Time, timeout time.Duration) *entry {
	e := entries.Get().(*entry)
	e.purpose, e.hit, e.slots, e.at = purpose, hit, slots, at
	e.deadline.Store(time.Now().Add(timeout).UnixNano())
	e.state.Store(waiting)
	return e
}

// begin claims the entry for the committer; false if it has been given up.
func (e *entry) begin() bool { return e.state.CompareAndSwap(waiting, begun) }

// finish answers an entry that has begun, unless it has been given up.
func (e *entry) finish(taken domain.Taken, err error) {
	if e.state.CompareAndSwap(begun, answered) {
		e.taken, e.err = taken, err
		e.done <- struct{}{}
	}
}

// giveUp answers the entry with err unless it is answered already. One that has
// not begun will not be counted.
func (e *entry) giveUp(err error) {
	if e.state.CompareAndSwap(waiting, answered) || e.state.CompareAndSwap(begun, answered) {
		e.err, e.gaveUp = err, true
		e.done <- struct{}{}
	}
}

// wait returns the answer. The entry is not the caller's any more after that.
func (e *entry) wait(ctx context.Context) (domain.Taken, error) {
	if ctx.Done() == nil {
		<-e.done // much cheaper than a select, and what servers do
	} else {
		select {
		case <-e.done:
		case <-ctx.Done():
			e.giveUp(ctx.Err())
			<-e.done
		}
	}
	taken, err := e.taken, e.err
	if !e.gaveUp {
		e.hit, e.slots, e.taken, e.err = domain.Hit{}, nil, domain.Taken{}, nil
		entries.Put(e)
	}
	return taken, err
}

func (e *entry) resetCall(slot *domain.Slot) domain.Call {
	return domain.Call{
		Kind: domain.CallReset, At: e.at, Policy: slot.Policy, Key: slot.Key, Allowed: true,
		Method: e.hit.Method, Path: e.hit.Path, RequestID: e.hit.RequestID,
	}
}
