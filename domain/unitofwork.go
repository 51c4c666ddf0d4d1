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
