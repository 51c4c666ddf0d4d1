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

// Refusals that were answered are counted at leisure: counting them takes a
// refusalShare-th of the store's time, unless they would then wait for longer
// than refusalPause.
const (
	refusalShare = 50
	refusalPause = 500 * time.Millisecond
)

// committer joins the hits that wait while the last commit runs into the next
// one. There is no timer in a hit's way: an idle committer commits a single hit
// at once. One goroutine does all commits, so that hits are decided in the order
// in which they came.
type committer struct {
	units    domain.UnitOfWork
	refusals *refusals
	options  Options

	mu       sync.Mutex
	waiting  []*entry // in order of arrival, at most options.Queue
	underWay []*entry // taken from waiting last; answered one commit after the other
	closed   bool

	woken   chan struct{} // capacity 1: something waits, or closed was set
	stopped chan struct{} // closed when the goroutine has ended
	watch   *time.Timer   // gives up on entries whose time is over

	// The rest is the goroutine's own.
	batch        batch
	nextRefusals time.Time // when refusals are next worth a commit of their own
}

func newCommitter(units domain.UnitOfWork, refusals *refusals, options Options) *committer {
	c := &committer{
		units: units, refusals: refusals, options: options,
		woken: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	c.watch = time.AfterFunc(time.Hour, c.expire)
	c.watch.Stop()
	refusals.wake = c.wake
	go c.run()
	return c
}

// take waits for the decision of a hit.
func (c *committer) take(ctx context.Context, hit domain.Hit, slots []domain.Slot, at time.Time) (domain.Taken, error) {
	return c.await(ctx, forHit, hit, slots, at)
}

// reset waits until the windows of the slots' keys and policies are forgotten.
func (c *committer) reset(ctx context.Context, hit domain.Hit, slots []domain.Slot, at time.Time) error {
	_, err := c.await(ctx, forReset, hit, slots, at)
	return err
}

// sync waits until every refusal that was answered before is counted.
func (c *committer) sync(ctx context.Context) error {
	if c.refusals.outstanding.Load() == 0 {
		return nil
	}
	_, err := c.await(ctx, forSync, domain.Hit{}, nil, time.Time{})
	return err
}

func (c *committer) await(ctx context.Context, purpose purpose, hit domain.Hit, slots []domain.Slot, at time.Time) (domain.Taken, error) {
	e := newEntry(purpose, hit, slots, at, c.options.Timeout)
	if err := c.queue(e); err != nil {
		e.giveUp(err)
	}
	return e.wait(ctx)
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
			c.batch.reset()
			c.batch.addRefusals(c.refusals.close())
			c.finish(nil)
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
	clear(c.underWay)
	c.waiting, c.underWay = c.underWay[:0], c.waiting
	if len(c.underWay) > 0 {
		c.watch.Reset(c.watchInterval())
	} else {
		c.watch.Stop()
	}
	return c.underWay, c.closed
}

// watchInterval is how much later than its deadline an entry may be given up.
func (c *committer) watchInterval() time.Duration {
	return min(c.options.Timeout/10, 50*time.Millisecond)
}

// expire gives up on the entries whose deadline is over. A commit that goes on as
// it should leaves it nothing to do.
func (c *committer) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().UnixNano()
	for _, list := range [][]*entry{c.underWay, c.waiting} {
		for _, e := range list {
			// An entry that was answered may be somebody else's by now: its deadline is too.
			if e != nil && now >= e.deadline.Load() {
				e.giveUp(fmt.Errorf("no answer within %s: %w", c.options.Timeout, domain.ErrUnavailable))
			}
		}
	}
	if len(c.underWay) > 0 {
		c.watch.Reset(c.watchInterval())
	}
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

// commit decides the entries in one unit of work.
func (c *committer) commit(entries []*entry) {
	if first := entries[0]; first.purpose != forHit {
		c.commitAlone(first)
		return
	}
	c.batch.reset()
	if time.Now().Before(c.nextRefusals) {
		c.batch.addRefusals(c.refusals.drainOf(entries))
	} else {
		c.batch.addRefusals(c.refusals.drain())
	}
	for _, e := range entries {
		if e.begin() {
			c.batch.addHit(e)
		}
	}
	c.batch.answer(c.finish(nil))
}

// commitRefusals counts the refusals that were answered.
func (c *committer) commitRefusals() error {
	c.batch.reset()
	c.batch.addRefusals(c.refusals.drain())
	return c.finish(nil)
}

// commitAlone does a sync or a reset, after counting the refusals answered before.
func (c *committer) commitAlone(e *entry) {
	if !e.begin() {
		return
	}
	if e.purpose == forSync {
		e.finish(domain.Taken{}, c.commitRefusals())
		return
	}
	c.batch.reset()
	c.batch.addRefusals(c.refusals.drain())
	err := c.finish(e)
	for i := range e.slots {
		c.refusals.forget(e.slots[i].Policy, e.slots[i].Key)
	}
	e.finish(domain.Taken{}, err)
}

// finish commits the batch, and the reset if there is one, and sees to the
// refusals in it.
func (c *committer) finish(reset *entry) error {
	b := &c.batch
	begun, at := time.Now(), c.options.Now()
	err := c.work(b, reset)
	if err != nil {
		err = fmt.Errorf("commit %d hits: %w", len(b.takes), storeError(err))
		if len(b.refusals) > 0 {
			c.refusals.restore(b.refusals)
			c.nextRefusals = time.Now().Add(refusalPause)
			c.options.Report(fmt.Errorf("count %d refusals, to be tried again: %w", len(b.refusals), err))
		}
		return err
	}
	b.teach(c.refusals, at)
	if len(b.refusals) > 0 {
		c.refusals.counted(b.refusals)
		cost := time.Since(begun) * time.Duration(len(b.refusals)) / time.Duration(len(b.takes))
		c.nextRefusals = time.Now().Add(min((refusalShare-1)*cost, refusalPause))
	}
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
		if len(b.takes) > 0 {
			if b.taken, err = counter.Take(ctx, b.takes); err != nil {
				return err
			}
		}
		b.log()
		if reset != nil {
			for i := range reset.slots {
				slot := &reset.slots[i]
				if err := counter.Reset(ctx, slot.Policy, slot.Key); err != nil {
					return err
				}
				b.calls = append(b.calls, reset.resetCall(slot))
			}
		}
		return log.Append(ctx, b.calls)
	})
}

// storeError makes whatever a store fails with ErrUnavailable, keeping the cause.
func storeError(err error) error {
	if errors.Is(err, domain.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", domain.ErrUnavailable, err)
}
