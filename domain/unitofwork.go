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

// MaxUnlogged is how many calls an [InTurn] keeps that are not logged yet.
const MaxUnlogged = 65536

// logTimeout is how long the log may take for calls that nobody waits for.
const logTimeout = 5 * time.Second

// Apart is the unit of work of a counter and a log that cannot share a transaction.
func Apart(counter Counter, log AuditLog) *InTurn {
	t := &InTurn{counter: counter, log: log}
	t.changed.L = &t.mu
	return t
}

// InTurn does the work of a unit with the counter, and appends its calls to the log
// in their order while others go on. It is safe for concurrent use.
//
// So the log may lack what the counter has: calls that are under way, and those that
// could not be appended and are tried again with those of the next unit. They are in
// memory, [MaxUnlogged] of them and one unit's at most; with more, Do waits for the
// log or fails before it takes anything. They are lost with the process. Work that
// fails after taking units does not give them back, and its calls are forgotten.
type InTurn struct {
	counter Counter
	log     AuditLog

	mu        sync.Mutex
	changed   sync.Cond // appending became false
	unlogged  []Call    // in order, those that are being appended apart
	appending []Call    // by a goroutine that ends when there are none; nil if there is none
}

// Do implements [UnitOfWork].
func (t *InTurn) Do(ctx context.Context, work func(Counter, AuditLog) error) error {
	if t.Unlogged() >= MaxUnlogged {
		if err := t.Flush(ctx); err != nil {
			return fmt.Errorf("%d calls wait for the log: %w", t.Unlogged(), err)
		}
	}
	counter := within{ctx, t.counter}
	calls := &heldCalls{AuditLog: t.log, unit: counter}
	if err := work(counter, calls); err != nil {
		return err
	}
	if len(calls.held) > 0 {
		t.keep(calls.held)
	}
	return nil
}

// keep sees to it that calls are appended.
func (t *InTurn) keep(calls []Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unlogged = append(t.unlogged, calls...)
	if t.appending == nil {
		t.appending, t.unlogged = t.unlogged, nil
		go t.append()
	}
}

// append appends what there is, until there is nothing or the log fails.
func (t *InTurn) append() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.appending) > 0 {
		calls := t.appending
		t.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), logTimeout)
		err := t.log.Append(ctx, calls)
		cancel()
		t.mu.Lock()
		if err != nil {
			t.unlogged = append(calls, t.unlogged...)
			break
		}
		t.appending, t.unlogged = t.unlogged, calls[:0]
	}
	t.appending = nil
	t.changed.Broadcast()
}

// Flush appends what is not logged yet.
func (t *InTurn) Flush(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.changed.Broadcast()
	})
	defer stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.appending != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		t.changed.Wait()
	}
	if len(t.unlogged) == 0 {
		return nil
	}
	if err := t.log.Append(ctx, t.unlogged); err != nil {
		return err
	}
	t.unlogged = nil
	return nil
}

// Unlogged is how many calls the log does not have yet.
func (t *InTurn) Unlogged() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.unlogged) + len(t.appending)
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
