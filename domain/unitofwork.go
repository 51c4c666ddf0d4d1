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

// Apart is the unit of work of a counter and a log that cannot share a transaction:
// the calls are appended once the work is done. If that fails the units are taken
// and not logged, and Do returns the error; work that fails after taking units does
// not give them back.
func Apart(counter Counter, log AuditLog) UnitOfWork { return apart{counter, log} }

type apart struct {
	counter Counter
	log     AuditLog
}

func (a apart) Do(ctx context.Context, work func(Counter, AuditLog) error) error {
	counter := within{ctx, a.counter}
	calls := &heldCalls{AuditLog: a.log, unit: counter}
	if err := work(counter, calls); err != nil {
		return err
	}
	if len(calls.held) == 0 {
		return nil
	}
	return a.log.Append(ctx, calls.held)
}

// within is a counter that keeps to the context of its unit of work too.
type within struct {
	unit context.Context
	Counter
}

func (w within) Take(ctx context.Context, takes []Take) ([]Taken, error) {
	ctx, cancel := w.both(ctx)
	defer cancel()
	return w.Counter.Take(ctx, takes)
}

func (w within) Look(ctx context.Context, slots []Slot) ([]Tally, error) {
	ctx, cancel := w.both(ctx)
	defer cancel()
	return w.Counter.Look(ctx, slots)
}

func (w within) Reset(ctx context.Context, policy, key string) error {
	ctx, cancel := w.both(ctx)
	defer cancel()
	return w.Counter.Reset(ctx, policy, key)
}

// both ends when the unit's context does, or ctx.
func (w within) both(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(w.unit, func() { cancel(context.Cause(w.unit)) })
	return ctx, func() { stop(); cancel(nil) }
}

// heldCalls keeps what is appended until the work is done.
type heldCalls struct {
	AuditLog
	unit within
	held []Call
}

func (h *heldCalls) Calls(ctx context.Context, query CallQuery) ([]Call, error) {
	ctx, cancel := h.unit.both(ctx)
	defer cancel()
	return h.AuditLog.Calls(ctx, query)
}

func (h *heldCalls) Append(_ context.Context, calls []Call) error {
	h.held = append(h.held, calls...)
	return nil
}

// Sweeper is implemented by stores that keep expired windows until they are told
// to let go. A store that forgets by itself need not.
type Sweeper interface {
	// Sweep removes at most limit windows that expired at or before now and
	// returns how many it removed; fewer than limit means that none is left. It
	// holds writers up only as long as removing so many takes.
	Sweep(ctx context.Context, now time.Time, limit int) (int, error)
}
