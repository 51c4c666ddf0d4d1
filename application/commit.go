package application

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// batchEnd is how many of the entries go into the next commit: what is no hit goes
// alone, so that everything before it is committed before it.
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
	c.batch.clear()
	due := !time.Now().Before(c.nextRefusals)
	if due {
		c.batch.addRefusals(c.refusals.drain(refusalBatch))
	}
	c.batch.addRefusals(c.refusals.drainOf(entries))
	for _, e := range entries {
		if e.begin() {
			c.batch.addHit(e)
		}
	}
	c.batch.answer(c.conclude(nil, due), c.options.Report)
}

// commitAlone does what is no hit, after counting the refusals answered before.
func (c *committer) commitAlone(e *entry) {
	if !e.begin() {
		return
	}
	var err error
	switch e.purpose {
	case forPing:
		if err = c.work(opLook, touch); err == nil {
			err = c.failing()
		}
	case forSync:
		err = c.countAll()
	case forReset:
		if err = c.countAll(); err == nil {
			c.batch.clear()
			err = c.conclude(e, false)
		}
		for i := range e.slots {
			c.refusals.forget(e.slots[i].Policy, e.slots[i].Key)
		}
	}
	if !e.finish(domain.Taken{}, err) && err != nil {
		c.options.Report(err)
	}
}

// commitRefusals counts refusals that were answered, as many as go into one commit.
func (c *committer) commitRefusals() error {
	c.batch.clear()
	c.batch.addRefusals(c.refusals.drain(refusalBatch))
	return c.conclude(nil, true)
}

// countAll counts the refusals that were answered until now, and maybe later ones.
func (c *committer) countAll() error {
	for commits := c.refusals.waiting()/refusalBatch + 1; commits > 0; commits-- {
		if err := c.commitRefusals(); err != nil {
			return err
		}
	}
	return nil
}

// countTheLast counts the refusals that are left when the limiter stops. It does
// not give up before a hit would.
func (c *committer) countTheLast() {
	c.refusals.close()
	for deadline := time.Now().Add(c.options.Timeout); ; time.Sleep(20 * time.Millisecond) {
		err := c.countAll()
		for err == nil && c.unchecked.size.Load() > 0 {
			err = c.logUnchecked()
		}
		if err == nil {
			return
		}
		if !time.Now().Before(deadline) {
			c.options.Report(fmt.Errorf("%d refusals were answered and not counted, %d kinds of unchecked hits not logged: %w",
				c.refusals.outstanding.Load(), c.unchecked.size.Load(), err))
			return
		}
	}
}

// conclude commits the batch, and the reset if there is one, and sees to the
// refusals in it. due says that refusals were due, and now are not for a while.
func (c *committer) conclude(reset *entry, due bool) error {
	b := &c.batch
	if len(b.takes) == 0 && reset == nil {
		return nil
	}
	begun, at := time.Now(), c.options.Now()
	err := c.work(opCommit, func(counter domain.Counter, log domain.AuditLog) error {
		ctx := context.Background() // the unit of work watches the time
		if late := b.dropLate(c.options.Now()); len(late) > 0 {
			c.refusals.settled(late)
			c.options.Report(fmt.Errorf("the refusals of %d windows waited until the windows were over for long: they are not counted", len(late)))
		}
		if err := b.settle(ctx, counter); err != nil {
			return err
		}
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
	if err != nil {
		if len(b.refusals) > 0 {
			c.refusals.restore(b.refusals)
		}
		if due {
			c.nextRefusals = time.Now().Add(refusalPause)
		}
		err = fmt.Errorf("commit %d hits and the refusals of %d windows: %w", len(b.entries), len(b.refusals), err)
		c.failure.Store(&failure{err, time.Now()})
		return err
	}
	took := time.Since(begun)
	c.options.Observer.Committed(len(b.takes), took)
	c.options.Observer.Logged(len(b.calls))
	c.failure.Store(nil)
	b.teach(c.refusals, at)
	c.refusals.settled(b.refusals)
	if due {
		cost := took * time.Duration(len(b.refusals)) / time.Duration(max(len(b.takes), 1))
		c.nextRefusals = time.Now().Add(min((refusalShare-1)*cost, refusalPause))
	}
	return nil
}

// work runs a unit of work and draws conclusions about the store.
func (c *committer) work(operation string, do func(domain.Counter, domain.AuditLog) error) error {
	err := c.attempt(do)
	if c.suspect = err != nil; c.suspect {
		c.options.Observer.StoreFailed(operation)
	} else {
		c.answered()
	}
	return err
}

func (c *committer) attempt(do func(domain.Counter, domain.AuditLog) error) error {
	return attempt(context.Background(), c.units, c.options.Timeout, do)
}

// attempt runs a unit of work. Whatever the store fails with is ErrUnavailable, the
// cause kept; a store that panics has failed too.
func attempt(ctx context.Context, units domain.UnitOfWork, timeout time.Duration, do func(domain.Counter, domain.AuditLog) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the store panicked: %v\n%s", r, debug.Stack())
		}
		if err != nil && !errors.Is(err, domain.ErrUnavailable) {
			err = fmt.Errorf("%w: %w", domain.ErrUnavailable, err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ran := false
	err = units.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
		ran = true
		return do(counter, log)
	})
	if err == nil && !ran {
		err = errors.New("the store did not do the work")
	}
	return err
}

// touch asks the counter for something that is not there: an answer shows that it is.
func touch(counter domain.Counter, _ domain.AuditLog) error {
	_, err := counter.Look(context.Background(), []domain.Slot{{Policy: "touch", Key: "touch", Schedule: "touch"}})
	return err
}

// failing is why the last commit failed, if that is a moment ago: a store may answer
// and take nothing, because it is full or a replica.
func (c *committer) failing() error { return c.failedWithin(failureYoung) }

func (c *committer) failedWithin(age time.Duration) error {
	if last := c.failure.Load(); last != nil && time.Since(last.at) < age {
		return last.err
	}
	return nil
}

// probe asks the store whether it is there.
func (c *committer) probe() {
	if err := c.attempt(touch); err != nil {
		c.breaker.failed(err)
		return
	}
	c.suspect = false
	c.answered()
}

// answered is told that the store did. A commit that failed while it did not says no more
// of what it is now.
func (c *committer) answered() {
	if c.breaker.down.Load() {
		c.failure.Store(nil)
	}
	c.breaker.worked()
}

// logUnchecked logs the hits that were allowed without the store.
func (c *committer) logUnchecked() error {
	calls := c.unchecked.drain(refusalBatch)
	err := c.work(opLog, func(_ domain.Counter, log domain.AuditLog) error { return log.Append(context.Background(), calls) })
	if err != nil {
		c.unchecked.restore(calls)
		return fmt.Errorf("log %d kinds of unchecked hits: %w", len(calls), err)
	}
	c.options.Observer.Logged(len(calls))
	return nil
}
