package application

import (
	"context"
	"errors"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Observer is told what a limiter does, so that it can be measured. It is told on the way
// of hits, of many at a time: its methods must be quick and must not ask the limiter.
type Observer interface {
	// Decided tells of a hit with a cost that was decided, and of one that was allowed
	// unchecked, and how long it took.
	Decided(d domain.Decision, took time.Duration)
	// Undecided tells of a hit with a cost for which there is no decision: the store
	// failed, too many hits waited, or who asked gave up.
	Undecided(policies []string, took time.Duration)
	// Committed tells of a commit that held so many hits, the refusals of a window that
	// were answered before counting as one.
	Committed(hits int, took time.Duration)
	// Logged tells of calls that were given to the audit log, and Pruned of windows and
	// calls that were removed.
	Logged(calls int)
	Pruned(windows, calls int)
	// StoreDown tells that the store decides nothing from now on, see [Options].Outage.
	StoreDown()
	// StoreFailed tells of a store that failed at one of the [Operations].
	StoreFailed(operation string)
}

// What stores may fail at.
const (
	opCommit = "commit" // hits, resets, refusals
	opLook   = "look"   // at counters
	opQuotas = "quotas" // reading and changing them
	opPrune  = "prune"  // windows or calls
	opLog    = "log"    // reading it, and writing what no commit of hits has
)

// Operations are what an [Observer] hears of as having failed.
var Operations = []string{opCommit, opLook, opQuotas, opPrune, opLog}

// tellFailed tells of a store that failed, unless nobody waited for it any more.
func tellFailed(ctx context.Context, observer Observer, operation string) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		observer.StoreFailed(operation)
	}
}

// unobserved is who observes if nobody does.
type unobserved struct{}

func (unobserved) Decided(domain.Decision, time.Duration) {}
func (unobserved) Undecided([]string, time.Duration)      {}
func (unobserved) Committed(int, time.Duration)           {}
func (unobserved) Logged(int)                             {}
func (unobserved) Pruned(int, int)                        {}
func (unobserved) StoreDown()                             {}
func (unobserved) StoreFailed(string)                     {}

// State is how a limiter is, at a moment.
type State struct {
	// Queued is how many hits wait for the store, of Queue that may.
	Queued, Queue int
	// Uncounted is how many refusals were answered that the store has not counted yet.
	Uncounted int64
	// Down says that the store decides nothing: it does not answer, or it answers and takes
	// nothing, as a disk that is full. Of the latter it knows by a commit that failed, in the
	// last minute and with none after it that worked.
	Down bool
}

// State is how the limiter is now.
func (l *Limiter) State() State {
	c := l.committer
	c.mu.Lock()
	queued := len(c.queued)
	c.mu.Unlock()
	return State{Queued: queued, Queue: c.options.Queue, Uncounted: c.refusals.outstanding.Load(), Down: c.breaker.down.Load() || c.failedWithin(failureKnown) != nil}
}
