package domain

import (
	"context"
	"time"
)

// UnitOfWork joins the counter and the audit log.
type UnitOfWork interface {
	// Do runs work with a counter and a log that are valid until work returns. If
	// work returns nil what it did is kept, durable as the store is configured to
	// be, before Do returns; if work fails nothing is kept and Do returns its error.
	//
	// A store that cannot hold both in one transaction keeps the counter first and
	// the log after it, and its documentation says so.
	Do(ctx context.Context, work func(Counter, AuditLog) error) error
}

// Sweeper is implemented by stores that keep expired windows until they are told
// to let go. A store that forgets by itself need not.
type Sweeper interface {
	// Sweep removes at most limit windows that expired at or before now and
	// returns how many it removed; fewer than limit means that none is left. It
	// holds writers up only as long as removing so many takes.
	Sweep(ctx context.Context, now time.Time, limit int) (int, error)
}

// CallPruner is implemented by logs that keep calls until they are told to let go.
// Like the AuditLog it is safe for concurrent use.
type CallPruner interface {
	PruneCalls(ctx context.Context, prune Prune) (removed int, more bool, err error)

	// PrunedCalls tells of each policy of which calls have been removed what is gone.
	PrunedCalls(ctx context.Context) ([]PrunedCalls, error)
}

// PrunedCalls is what was removed from the log of a policy's calls.
type PrunedCalls struct {
	Policy string
	// Through is the ID of the last call that was removed. Removed is how many there were.
	Through, Removed int64
	// At is when the last ones were removed, by the clock of who did it.
	At time.Time
	// Hash is that of the last call that was removed, "" if there is no chain.
	Hash string
}

// WindowLister is implemented by stores that can tell which windows they hold.
type WindowLister interface {
	// Windows returns windows in the byte order of policy, key, schedule and then by
	// start, those beyond after, at most limit of them. After each call the store may
	// have changed; a window that is there all the while is returned once.
	Windows(ctx context.Context, after LedgerWindow, limit int) ([]LedgerWindow, error)
}

type Prune struct {
	Policy string
	At     time.Time
	Before time.Time
	Most   int64
	Limit  int
}
