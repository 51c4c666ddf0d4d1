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
	logging *logging

	deadline atomic.Int64  // when to give up, in nanoseconds of the committer's own clock
	state    atomic.Uint64 // an entryState in the low bits, above it how often the entry was used
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
	forPing
)

// The states of an entry. It goes from waiting to begun to answered, or to
// answered at once.
const (
	stateAnswered uint64 = iota // or not in use
	stateWaiting
	stateBegun

	stateBits = 2
	stateMask = 1<<stateBits - 1
)

// entryPool keeps entries to be used again: a hit would otherwise cost a channel.
var entryPool = sync.Pool{New: func() any { return &entry{done: make(chan struct{}, 1)} }}

func newEntry(purpose purpose, hit domain.Hit, slots []domain.Slot, at time.Time, logging *logging, deadline time.Duration) *entry {
	e := entryPool.Get().(*entry)
	e.purpose, e.hit, e.slots, e.at, e.logging = purpose, hit, slots, at, logging
	e.deadline.Store(int64(deadline))
	use := e.state.Load()>>stateBits + 1 // who looked at the entry before looked at another use
	e.state.Store(use<<stateBits | stateWaiting)
	return e
}

// begin claims the entry for the committer; false if it has been given up.
func (e *entry) begin() bool {
	state := e.state.Load()
	return state&stateMask == stateWaiting && e.state.CompareAndSwap(state, state&^stateMask|stateBegun)
}

// finish answers an entry that has begun and reports whether somebody was there to
// hear it: it may have been given up.
func (e *entry) finish(taken domain.Taken, err error) bool {
	state := e.state.Load()
	if state&stateMask != stateBegun || !e.state.CompareAndSwap(state, state&^stateMask|stateAnswered) {
		return false
	}
	e.taken, e.err = taken, err
	e.done <- struct{}{}
	return true
}

// expire gives up on an entry whose deadline is over, and reports whether it did and
// the entry had begun.
func (e *entry) expire(now time.Duration, reason error) (begun bool) {
	state := e.state.Load() // before the deadline, so that the two belong to one use or the swap fails
	if state&stateMask == stateAnswered || int64(now) < e.deadline.Load() {
		return false
	}
	return e.giveUp(state, reason) && state&stateMask == stateBegun
}

// giveUp answers the entry with reason if it is in that state still and not
// answered. One that has not begun will not be counted.
func (e *entry) giveUp(state uint64, reason error) bool {
	if state&stateMask == stateAnswered || !e.state.CompareAndSwap(state, state&^stateMask|stateAnswered) {
		return false
	}
	e.err, e.gaveUp = reason, true
	e.done <- struct{}{}
	return true
}

// wait returns the answer. The entry is not the caller's any more after that.
func (e *entry) wait(ctx context.Context) (domain.Taken, error) {
	if ctx.Done() == nil {
		<-e.done // much cheaper than a select, and what servers do
	} else {
		select {
		case <-e.done:
		case <-ctx.Done():
			for { // it may begin at this moment
				state := e.state.Load()
				if state&stateMask == stateAnswered || e.giveUp(state, context.Cause(ctx)) {
					break
				}
			}
			<-e.done
		}
	}
	taken, err := e.taken, e.err
	if !e.gaveUp {
		e.hit, e.slots, e.logging, e.taken, e.err = domain.Hit{}, nil, nil, domain.Taken{}, nil
		entryPool.Put(e)
	}
	return taken, err
}

func (e *entry) resetCall(slot *domain.Slot) domain.Call {
	return domain.Call{
		Kind: domain.CallReset, At: e.at, Policy: slot.Policy, Key: slot.Key, Allowed: true, Origin: e.hit.Origin,
	}
}
