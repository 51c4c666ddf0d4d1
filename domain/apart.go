package domain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// MaxUnlogged is how many calls an [InTurn] keeps that are not logged yet.
const MaxUnlogged = 65536

const (
	// logTimeout is how long the log may take for calls that nobody waits for, and
	// logBatch how many of them it is given at a time.
	logTimeout = 5 * time.Second
	logBatch   = 1024
)

// logRetry is how long after a failure the log is tried again if no unit does before.
const logRetry = time.Second

// Apart is the unit of work of a counter and a log that cannot share a transaction.
// Close it after use.
func Apart(counter Counter, log AuditLog) *InTurn {
	t := &InTurn{counter: counter, log: log}
	t.changed.L = &t.mu
	return t
}

// InTurn does the work of a unit with the counter, and appends its calls to the log
// in their order while others go on. It is safe for concurrent use.
//
// So the log may lack what the counter has: calls that are under way, and those that
// could not be appended and are tried again, after a second or with the next unit. They are in
// memory, [MaxUnlogged] of them and one unit's at most; with more, Do waits for the
// log or fails before it takes anything. They are lost with the process. A call may be
// logged twice if the log fails after it has kept it. Work that fails after taking
// units does not give them back, and its calls are forgotten.
type InTurn struct {
	// Notice, if it is not nil, is told when the log fails that did not before, with
	// the number of calls that wait, and with a nil error when it has caught up. Set it
	// before use.
	Notice func(unlogged int, err error)

	counter Counter
	log     AuditLog

	mu        sync.Mutex
	changed   sync.Cond // something of what follows did
	unlogged  []Call    // in order
	appending bool      // a goroutine does, which ends when there is nothing or the log fails
	runs      int64     // how many such goroutines were started
	failed    int64     // which of them was the last that ended with a failure
	failure   error     // with which one
	behind    bool      // Notice was told of a failure
	closed    bool      // nothing is tried by itself any more
}

// Do implements [UnitOfWork].
func (t *InTurn) Do(ctx context.Context, work func(Counter, AuditLog) error) error {
	if err := t.await(ctx, func() bool { return len(t.unlogged) < MaxUnlogged }); err != nil {
		return fmt.Errorf("%d calls wait for the log: %w", MaxUnlogged, err)
	}
	counter := within{ctx, t.counter}
	calls := &heldCalls{AuditLog: t.log, unit: counter}
	if err := work(counter, calls); err != nil {
		return err
	}
	if len(calls.held) > 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.unlogged = append(t.unlogged, calls.held...)
		t.start()
	}
	return nil
}

// Flush waits until everything is logged, or the log fails.
func (t *InTurn) Flush(ctx context.Context) error {
	return t.await(ctx, func() bool { return len(t.unlogged) == 0 })
}

// Close is Flush, and leaves what is then not logged alone. Use nothing after it.
func (t *InTurn) Close(ctx context.Context) error {
	err := t.Flush(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return err
}

// Unlogged is how many calls the log does not have yet.
func (t *InTurn) Unlogged() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.unlogged)
}

// await has calls appended until enough is true. A failure of what began before it was
// called is none: the log may be back since.
func (t *InTurn) await(ctx context.Context, enough func() bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if enough() {
		return nil
	}
	stop := context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.changed.Broadcast()
	})
	defer stop()
	for before := t.runs; !enough(); t.changed.Wait() {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case t.failed > before:
			return t.failure
		}
		t.start()
	}
	return nil
}

// start has a goroutine append what there is. The mutex is held.
func (t *InTurn) start() {
	if !t.appending && len(t.unlogged) > 0 {
		t.appending = true
		t.runs++
		go t.run()
	}
}

func (t *InTurn) run() {
	t.mu.Lock()
	defer t.mu.Unlock()
	var failure error
	for len(t.unlogged) > 0 && failure == nil {
		calls := slices.Clone(t.unlogged[:min(len(t.unlogged), logBatch)])
		t.mu.Unlock()
		failure = t.append(calls)
		t.mu.Lock()
		if failure == nil {
			clear(t.unlogged[:len(calls)])
			t.unlogged = t.unlogged[len(calls):]
		}
		t.changed.Broadcast()
	}
	t.appending = false
	if failure != nil {
		t.failed, t.failure = t.runs, failure
	}
	t.changed.Broadcast()
	if failure != nil && !t.closed {
		time.AfterFunc(logRetry, t.retry)
	}
	if behind := failure != nil; behind != t.behind {
		t.behind = behind
		if t.Notice != nil {
			t.Notice(len(t.unlogged), failure)
		}
	}
}

func (t *InTurn) retry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.start()
	}
}

// append appends; a log that panics has failed.
func (t *InTurn) append(calls []Call) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the log panicked: %v", r)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), logTimeout)
	defer cancel()
	return t.log.Append(ctx, calls)
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
