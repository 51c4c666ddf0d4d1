package application

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// probePause is how long the breaker leaves a store alone that has failed again.
const probePause = 200 * time.Millisecond

// breaker knows whether the store is down. While it is, hits are not kept waiting
// for it: it is asked now and then whether it is back.
type breaker struct {
	notice func(Outage)
	down   atomic.Bool

	mu     sync.Mutex
	outage Outage
	next   time.Time // of the next probe
}

// Outage is a time in which the store decided nothing.
type Outage struct {
	// Since is when the first attempt failed, Cause why.
	Since time.Time
	Cause error
	// Over says that the store is back. Then Unchecked is how many hits were allowed
	// unchecked meanwhile, and Undecided how many were not decided.
	Over                 bool
	Unchecked, Undecided int64
}

// failed is told that the store failed.
func (b *breaker) failed(cause error) {
	b.mu.Lock()
	now := time.Now()
	first := !b.down.Load()
	b.next = now.Add(probePause)
	if first {
		b.outage.Since, b.outage.Cause, b.next = now, cause, now // it may have been for a moment
		b.down.Store(true)
	}
	outage := b.outage
	b.mu.Unlock()
	if first {
		b.notice(outage)
	}
}

// worked is told that the store did what it was asked.
func (b *breaker) worked() {
	if !b.down.Load() {
		return
	}
	b.mu.Lock()
	b.down.Store(false)
	b.outage.Over = true
	outage := b.outage
	b.outage = Outage{}
	b.mu.Unlock()
	b.notice(outage)
}

// answered counts a hit that was answered without the store, with the outage that
// is under way or is about to be noticed.
func (b *breaker) answered(unchecked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if unchecked {
		b.outage.Unchecked++
	} else {
		b.outage.Undecided++
	}
}

// check is an error while the store is down.
func (b *breaker) check() error {
	if !b.down.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Errorf("the store is down since %s: %w", b.outage.Since.UTC().Format(time.RFC3339), domain.ErrUnavailable)
}

// probeIn is how long to wait until the store should be asked again; false if it
// is not down.
func (b *breaker) probeIn() (time.Duration, bool) {
	if !b.down.Load() {
		return 0, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Until(b.next), true
}
