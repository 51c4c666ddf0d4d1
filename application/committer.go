package application

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// refusalPause is how long refusals that were answered may wait to be counted.
// They wait shorter while that costs the store less than a tenth of its time.
const refusalPause = 250 * time.Millisecond

// committer joins the hits that wait while the last commit runs into the next
// one. There is no timer in a hit's way: an idle committer commits a single hit
// at once. One goroutine does all commits, so that hits are decided in the order
// in which they came.
type committer struct {
	units    domain.UnitOfWork
	refusals *refusals
	options  Options

	mu      sync.Mutex
	waiting []*entry // in order of arrival, at most options.Queue
	spare   []*entry // the emptied half of the pair that waiting alternates with
	closed  bool

	woken   chan struct{} // capacity 1: something waits, or closed was set
	stopped chan struct{} // closed when the goroutine has ended

	nextRefusals time.Time // when refusals are next worth a commit of their own
}

func newCommitter(units domain.UnitOfWork, refusals *refusals, options Options) *committer {
	c := &committer{
		units: units, refusals: refusals, options: options,
		woken: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	refusals.wake = c.wake
	go c.run()
	return c
}

// take waits for the decision of a hit.
func (c *committer) take(ctx context.Context, hit domain.Hit, slots []domain.Slot, at time.Time) (domain.Taken, error) {
	e := newEntry(forHit, hit, slots, at)
	if err := c.await(ctx, e); err != nil {
		return domain.Taken{}, err
	}
	return e.taken, nil
}

// reset waits until the windows of the slots' keys and policies are forgotten.
func (c *committer) reset(ctx context.Context, hit domain.Hit, slots []domain.Slot, at time.Time) error {
	return c.await(ctx, newEntry(forReset, hit, slots, at))
}

// sync waits until every refusal that was answered before is counted.
func (c *committer) sync(ctx context.Context) error {
	if c.refusals.outstanding.Load() == 0 {
		return nil
	}
	return c.await(ctx, newEntry(forSync, domain.Hit{}, nil, time.Time{}))
}

// await queues e and waits until it is done, the context ends or time is up.
func (c *committer) await(ctx context.Context, e *entry) error {
	if err := c.queue(e); err != nil {
		return err
	}
	timer := time.NewTimer(c.options.Timeout)
	defer timer.Stop()
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
		return e.abandon(ctx.Err())
	case <-timer.C:
		return e.abandon(fmt.Errorf("no answer within %s: %w", c.options.Timeout, domain.ErrUnavailable))
	}
}

func (c *committer) queue(e *entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return fmt.Errorf("the limiter is stopping: %w", domain.ErrUnavailable)
	case len(c.waiting) >= c.options.Queue:
		return domain.ErrOverloaded
	}
	c.waiting = append(c.waiting, e)
	if len(c.waiting) == 1 {
		c.wake()
	}
	return nil
}

// wake makes the goroutine look for work.
func (c *committer) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// close decides what waits, counts what was refused and stops the goroutine.
func (c *committer) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.wake()
	<-c.stopped
}

func (c *committer) run() {
	defer close(c.stopped)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		entries, closed := c.collect()
		for len(entries) > 0 {
			n := batchEnd(entries, c.options.Batch)
			c.commit(entries[:n])
			entries = entries[n:]
		}
		if closed {
			c.commitRefusals()
			return
		}
		if c.refusals.outstanding.Load() > 0 {
			wait := time.Until(c.nextRefusals)
			if wait <= 0 {
				c.commitRefusals()
				continue
			}
			pause.Reset(wait)
		}
		select {
		case <-c.woken:
		case <-pause.C:
		}
	}
}

// collect takes over everything that waits. Nothing is queued after closed is true.
func (c *committer) collect() (entries []*entry, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries = c.waiting
	clear(c.spare[:cap(c.spare)])
	c.waiting, c.spare = c.spare[:0], entries
	return entries, c.closed
}

// batchEnd is how many of the entries go into the next commit: a reset or sync
// goes alone, so that everything before it is committed before it.
func batchEnd(entries []*entry, limit int) int {
	for i, e := range entries {
		if i == limit || e.purpose != forHit {
			return max(i, 1)
		}
	}
	return len(entries)
}

func (c *committer) commit(entries []*entry) {
	if first := entries[0]; first.purpose != forHit {
		c.commitAlone(first)
		return
	}
	b := newBatch(len(entries))
	for _, e := range entries {
		if e.begin() {
			b.addHit(e)
		}
	}
	var drained []*refusal
	if !time.Now().Before(c.nextRefusals) {
		drained = c.drain(b)
	}
	c.finish(b, drained, nil)
}

func (c *committer) commitRefusals() {
	b := newBatch(0)
	if drained := c.drain(b); len(drained) > 0 {
		c.finish(b, drained, nil)
	}
}

// commitAlone does a sync or a reset, after counting the refusals answered before.
func (c *committer) commitAlone(e *entry) {
	if !e.begin() {
		return
	}
	b := newBatch(0)
	drained := c.drain(b)
	switch e.purpose {
	case forSync:
		e.err = c.finish(b, drained, nil)
	case forReset:
		e.err = c.finish(b, drained, e)
		for _, slot := range e.slots {
			c.refusals.forget(slot.Policy, slot.Key)
		}
	}
	e.finish()
}

func (c *committer) drain(b *batch) []*refusal {
	drained := c.refusals.drain()
	for _, known := range drained {
		b.addRefusal(known)
	}
	return drained
}

// finish commits the batch, then the reset if there is one, in one unit of work,
// and tells everyone who waits.
func (c *committer) finish(b *batch, drained []*refusal, reset *entry) error {
	begun, at := time.Now(), c.options.Now()
	err := c.work(b, reset)
	took := time.Since(begun)
	if err != nil {
		err = fmt.Errorf("commit %d hits: %w", len(b.entries)+len(drained), storeError(err))
	}
	b.tell(err, c.refusals, at)
	if len(drained) == 0 {
		return err
	}
	if err != nil {
		c.refusals.restore(drained)
		c.nextRefusals = time.Now().Add(refusalPause)
		c.options.Report(fmt.Errorf("count %d refusals, to be tried again: %w", len(drained), err))
		return err
	}
	c.refusals.counted(drained)
	share := took * time.Duration(len(drained)) / time.Duration(len(b.takes))
	c.nextRefusals = time.Now().Add(min(9*share, refusalPause))
	return nil
}

// work does what the batch and the reset ask for in one unit of work. A store
// that panics has failed like one that returns an error.
func (c *committer) work(b *batch, reset *entry) (err error) {
	if len(b.takes) == 0 && reset == nil {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the store panicked: %v\n%s", r, debug.Stack())
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), c.options.Timeout)
	defer cancel()
	return c.units.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
		var err error
		if len(b.takes) > 0 {
			if b.taken, err = counter.Take(ctx, b.takes); err != nil {
				return err
			}
		}
		calls := b.calls()
		if reset != nil {
			for _, slot := range reset.slots {
				if err := counter.Reset(ctx, slot.Policy, slot.Key); err != nil {
					return err
				}
				calls = append(calls, reset.resetCall(slot))
			}
		}
		return log.Append(ctx, calls)
	})
}

// storeError makes whatever a store fails with ErrUnavailable, keeping the cause.
func storeError(err error) error {
	if errors.Is(err, domain.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", domain.ErrUnavailable, err)
}
