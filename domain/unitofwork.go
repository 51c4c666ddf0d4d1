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
	// PruneCalls goes through the calls of a policy that age, see [CallKind.Ages], in the order of IDs and removes
	// those that are beyond the newest prune.Most or were made before prune.Before, at
	// most prune.Limit. The first call that is neither ends it: those behind it that
	// were made before may stay as long as it does. Nothing else is removed.
	//
	// A call that is misdated, see [Prune.Misdated], is taken for as old as the next one
	// of these that is not, because it was there before that: it goes if that is old. If
	// that is not, or none follows, the misdated call ends it.
	//
	// It returns how many calls it removed, and whether there may be more to remove now.
	// It holds writers up only as long as removing so many takes.
	PruneCalls(ctx context.Context, prune Prune) (removed int, more bool, err error)

	// PrunedCalls tells of each policy of which calls have been removed what is gone.
	PrunedCalls(ctx context.Context) ([]PrunedCalls, error)
}

// Prune says which calls are to be removed.
type Prune struct {
	// Policy is the one whose calls these are.
	Policy string
	// At is the time of the pruning, which [PrunedCalls] tells, to the millisecond.
	At time.Time
	// Before is when calls to keep were made at the earliest, to the millisecond. The
	// zero time removes none for its age.
	Before time.Time
	// Most is how many calls to keep at most, the newest by ID. 0 removes none for
	// their number.
	Most int64
	// Limit is how many calls to remove at most, at least 1.
	Limit int
}

// Old reports whether the call was made before prune.Before.
func (p *Prune) Old(c *Call) bool {
	return !p.Before.IsZero() && c.At.Before(CeilMilli(p.Before))
}

// Misdated reports whether the call claims to have been made after [Prune.Horizon]: its
// clock was wrong, and its time says nothing of its age.
func (p *Prune) Misdated(c *Call) bool { return c.At.After(p.Horizon()) }

// Horizon is the latest time of a call that can be believed, a minute after the pruning:
// clocks differ by that much without anybody minding.
func (p *Prune) Horizon() time.Time { return CeilMilli(p.At).Add(time.Minute) }

// PrunedCalls is what was removed from the log of a policy's calls.
type PrunedCalls struct {
	Policy string
	// Through is the largest ID that was removed. Removed is how many calls there were.
	Through, Removed int64
	// At is when the last ones were removed, by the clock of who did it.
	At time.Time
	// Hash is that of the last call that was removed, "" if there is no chain.
	Hash string
}

// WindowLister is implemented by stores that can tell which windows they hold. It is
// safe for concurrent use.
type WindowLister interface {
	// Windows returns the windows beyond after, in the order of [WindowID.Compare], at
	// most limit of them; the zero LedgerWindow is before all. Of after only the identity
	// counts. Windows that were never hit need not be among them. After each call the
	// store may have changed; a window that is there all the while is returned once.
	Windows(ctx context.Context, after LedgerWindow, limit int) ([]LedgerWindow, error)
}
