package domain

import (
	"context"
	"fmt"
	"sync"
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

// MaxUnlogged is how many calls an [InTurn] keeps that could not be logged.
const MaxUnlogged = 65536

// Apart is the unit of work of a counter and a log that cannot share a transaction.
func Apart(counter Counter, log AuditLog) *InTurn { return &InTurn{counter: counter, log: log} }

// InTurn does the work of a unit with the counter first and appends its calls to the
// log after that. It is safe for concurrent use.
//
// The log may so lack what the counter has. Work that fails after taking units does
// not give them back, and its calls are forgotten. Calls that cannot be appended are
// kept in memory, [MaxUnlogged] of them, and are tried again with those of the next
// unit; beyond that Do fails. What is kept is lost with the process.
type InTurn struct {
	counter Counter
	log     AuditLog

	mu       sync.Mutex // holds the order of calls too
	unlogged []Call
}

// Do implements [UnitOfWork].
func (t *InTurn) Do(ctx context.Context, work func(Counter, AuditLog) error) error {
	counter := within{ctx, t.counter}
	calls := &heldCalls{AuditLog: t.log, unit: counter}
	if err := work(counter, calls); err != nil {
		return err
	}
	return t.append(ctx, calls.held)
}

// Flush appends what is kept.
func (t *InTurn) Flush(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.flush(ctx)
}

// Unlogged is how many calls are kept that the log does not have.
func (t *InTurn) Unlogged() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.unlogged)
}

func (t *InTurn) append(ctx context.Context, calls []Call) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unlogged = append(t.unlogged, calls...)
	err := t.flush(ctx)
	if len(t.unlogged) <= MaxUnlogged {
		return nil
	}
	t.unlogged = t.unlogged[:len(t.unlogged)-len(calls)]
	return fmt.Errorf("%d calls could not be logged: %w", len(t.unlogged), err)
}

func (t *InTurn) flush(ctx context.Context) error {
	if len(t.unlogged) == 0 {
		return nil
	}
	if err := t.log.Append(ctx, t.unlogged); err != nil {
		return err
	}
	clear(t.unlogged)
	t.unlogged = t.unlogged[:0]
	return nil
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
	deadline, ok := w.unit.Deadline()
	if !ok {
		return ctx, func() { stop(); cancel(nil) }
	}
	ctx, end := context.WithDeadline(ctx, deadline) // adapters look at it before they wait
	return ctx, func() { end(); stop(); cancel(nil) }
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
