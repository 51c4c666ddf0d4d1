package application

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Refusals that were answered are counted at leisure: counting them takes a
// refusalShare-th of the store's time, unless they would then wait for longer
// than refusalPause.
const (
	refusalShare = 50
	refusalPause = 500 * time.Millisecond
	refusalBatch = 1024 // windows whose refusals go into one commit
	// failureYoung is how long a commit that failed speaks against the store, if no
	// other is tried; failureKnown how long who watches the limiter is told of it, maybe
	// a minute apart.
	failureYoung = time.Second
	failureKnown = time.Minute
)

// failure is a commit that failed.
type failure struct {
	err error
	at  time.Time
}

// committer joins the hits that wait while the last commit runs into the next
// one. There is no timer in a hit's way: an idle committer commits a single hit
// at once. One goroutine does all commits, so that hits are decided in the order
// in which they came.
type committer struct {
	units     domain.UnitOfWork
	refusals  *refusals
	unchecked *unchecked
	breaker   breaker
	failure   atomic.Pointer[failure] // of the last commit of hits or refusals, nil if it worked
	options   Options
	started   time.Time // deadlines count from here, whatever becomes of the wall clock

	mu      sync.Mutex
	queued  []*entry // in order of arrival, at most options.Queue
	current []*entry // taken from queued last, until all of them are answered
	closed  bool
	watch   *time.Timer // gives up on late entries; set while there are entries

	woken   chan struct{} // capacity 1: something is queued, or closed was set
	stopped chan struct{} // closed when the goroutine has ended

	// The rest is the goroutine's own.
	batch         batch
	nextRefusals  time.Time // when refusals are next worth a commit of their own
	nextUnchecked time.Time // when unchecked hits are next worth an attempt
	suspect       bool      // the last work failed: the store may be down
}

func newCommitter(units domain.UnitOfWork, options Options) *committer {
	c := &committer{
		units: units, options: options, started: time.Now(),
		woken: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	c.batch.random = options.random
	c.breaker.notice = func(outage Outage) {
		if !outage.Over {
			options.Observer.StoreDown()
		}
		options.Outage(outage)
	}
	c.refusals = newRefusals(options.FullWindows, c.wake)
	c.unchecked = newUnchecked(options.FullWindows, c.wake)
	c.watch = time.AfterFunc(time.Hour, c.expire)
	c.watch.Stop()
	go c.run()
	return c
}

// take waits for the decision of a hit.
func (c *committer) take(ctx context.Context, hit domain.Hit, slots []domain.Slot, at time.Time, logging *logging) (domain.Taken, error) {
	return c.await(ctx, forHit, hit, slots, at, logging)
}

// reset waits until the windows of the slots' keys and policies are forgotten.
func (c *committer) reset(ctx context.Context, hit domain.Hit, slots []domain.Slot, at time.Time) error {
	_, err := c.await(ctx, forReset, hit, slots, at, nil)
	return err
}

// sync waits until every refusal that was answered before is counted.
func (c *committer) sync(ctx context.Context) error {
	if c.refusals.outstanding.Load() == 0 {
		return nil
	}
	_, err := c.await(ctx, forSync, domain.Hit{}, nil, time.Time{}, nil)
	return err
}

// ping waits until an empty unit of work is done.
func (c *committer) ping(ctx context.Context) error {
	_, err := c.await(ctx, forPing, domain.Hit{}, nil, time.Time{}, nil)
	return err
}

func (c *committer) await(ctx context.Context, purpose purpose, hit domain.Hit, slots []domain.Slot, at time.Time, logging *logging) (domain.Taken, error) {
	e := newEntry(purpose, hit, slots, at, logging, time.Since(c.started)+c.options.Timeout)
	if err := c.queue(e); err != nil {
		e.giveUp(e.state.Load(), err) // unless the watch, which may know it from an earlier use, did already
	}
	return e.wait(ctx)
}

func (c *committer) queue(e *entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return fmt.Errorf("the limiter is stopping: %w", domain.ErrUnavailable)
	case len(c.queued) >= c.options.Queue:
		return domain.ErrOverloaded
	}
	if err := c.breaker.check(); err != nil {
		return err
	}
	c.queued = append(c.queued, e)
	if len(c.queued) == 1 {
		c.wake()
		if len(c.current) == 0 {
			c.watch.Reset(c.watchInterval())
		}
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
			if err := c.breaker.check(); err != nil {
				c.turnAway(entries, err)
				break
			}
			n := batchEnd(entries, c.options.Batch)
			c.commit(entries[:n])
			entries = entries[n:]
			if c.suspect {
				c.probe()
			}
		}
		if c.release() {
			continue // more was queued
		}
		if closed {
			c.countTheLast()
			return
		}
		if wait, down := c.breaker.probeIn(); down {
			if wait <= 0 {
				c.probe()
				continue
			}
			pause.Reset(wait)
		} else if c.unchecked.size.Load() > 0 {
			if wait := time.Until(c.nextUnchecked); wait > 0 {
				pause.Reset(wait)
			} else {
				if err := c.logUnchecked(); err != nil {
					c.options.Report(err)
					c.nextUnchecked = time.Now().Add(refusalPause)
					c.probe()
				}
				continue
			}
		} else if c.refusals.outstanding.Load() > 0 {
			wait := time.Until(c.nextRefusals)
			if wait <= 0 {
				if err := c.commitRefusals(); err != nil {
					c.options.Report(err)
					c.probe()
				}
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

// collect takes over everything that is queued. Nothing is queued after closed is true.
func (c *committer) collect() (entries []*entry, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued, c.current = c.current[:0], c.queued
	return c.current, c.closed
}

// release lets go of the entries of the last collect, which are answered. It
// reports whether others are queued.
func (c *committer) release() (more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.current) // they are somebody else's by now
	c.current = c.current[:0]
	if len(c.queued) == 0 {
		c.watch.Stop()
	}
	return len(c.queued) > 0
}

// watchInterval is how much later than its deadline an entry may be given up.
func (c *committer) watchInterval() time.Duration {
	return max(min(c.options.Timeout/10, 50*time.Millisecond), time.Millisecond)
}

// expire gives up on the entries whose deadline is over. A commit that goes on as
// it should leaves it nothing to do.
func (c *committer) expire() {
	reason := fmt.Errorf("no answer within %s: %w", c.options.Timeout, domain.ErrUnavailable)
	if c.expireEntries(reason) {
		c.breaker.failed(reason) // the store hangs, or is much too slow
		c.wake()                 // or was: then somebody has to find out
	}
}

// expireEntries reports whether one was given up that the store was at.
func (c *committer) expireEntries(reason error) (hangs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Since(c.started)
	for _, list := range [][]*entry{c.current, c.queued} {
		for _, e := range list {
			hangs = e.expire(now, reason) || hangs
		}
	}
	if len(c.current)+len(c.queued) > 0 {
		c.watch.Reset(c.watchInterval())
	}
	return hangs
}

// turnAway answers entries with an error, without trying.
func (c *committer) turnAway(entries []*entry, err error) {
	for _, e := range entries {
		if e.begin() {
			e.finish(domain.Taken{}, err)
		}
	}
}
