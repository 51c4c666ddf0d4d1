package domain_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// slowCounter waits for its context; failingLog fails while it is told to.
type slowCounter struct{ domain.Counter }

func (slowCounter) Take(ctx context.Context, _ []domain.Take) ([]domain.Taken, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

type failingLog struct {
	domain.AuditLog
	fails error
	calls []domain.Call
}

func (l *failingLog) Append(_ context.Context, calls []domain.Call) error {
	if l.fails == nil {
		l.calls = append(l.calls, calls...)
	}
	return l.fails
}

func appending(n int, first int64) func(domain.Counter, domain.AuditLog) error {
	return func(_ domain.Counter, log domain.AuditLog) error {
		calls := make([]domain.Call, n)
		for i := range calls {
			calls[i].Count = first + int64(i)
		}
		return log.Append(context.Background(), calls)
	}
}

func TestCallsThatCannotBeLoggedAreKeptInOrderUpToABound(t *testing.T) {
	log := &failingLog{fails: errors.New("the log is down")}
	units := domain.Apart(nil, log)
	ctx := context.Background()
	for i := range 4 {
		if err := units.Do(ctx, appending(domain.MaxUnlogged/4, int64(i*domain.MaxUnlogged/4))); err != nil {
			t.Fatal(err)
		}
	}
	if err := units.Do(ctx, appending(1, -1)); !errors.Is(err, log.fails) || units.Unlogged() != domain.MaxUnlogged {
		t.Errorf("beyond the bound: %v, %d kept", err, units.Unlogged())
	}
	log.fails = nil
	if err := units.Do(ctx, appending(1, domain.MaxUnlogged)); err != nil || units.Unlogged() != 0 {
		t.Errorf("%v, %d kept", err, units.Unlogged())
	}
	for i, call := range log.calls {
		if call.Count != int64(i) {
			t.Fatalf("call %d is %d", i, call.Count)
		}
	}
	if len(log.calls) != domain.MaxUnlogged+1 {
		t.Errorf("%d calls are logged", len(log.calls))
	}
}

func TestWorkThatFailsLogsNothing(t *testing.T) {
	log := &failingLog{}
	cause := fmt.Errorf("no")
	err := domain.Apart(nil, log).Do(context.Background(), func(c domain.Counter, l domain.AuditLog) error {
		return errors.Join(appending(1, 1)(c, l), cause)
	})
	if !errors.Is(err, cause) || len(log.calls) != 0 {
		t.Errorf("%v, %d calls", err, len(log.calls))
	}
}

func TestACounterKeepsToTheDeadlineOfItsUnit(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	err := domain.Apart(slowCounter{}, &failingLog{}).Do(ctx, func(counter domain.Counter, _ domain.AuditLog) error {
		_, err := counter.Take(context.Background(), nil)
		return err
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
}
