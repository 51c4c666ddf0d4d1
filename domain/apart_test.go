package domain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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
	mu    sync.Mutex
	fails error
	calls []domain.Call
}

func (l *failingLog) set(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = err
}

func (l *failingLog) Append(_ context.Context, calls []domain.Call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
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
	down := errors.New("the log is down")
	log := &failingLog{fails: down}
	units := domain.Apart(nil, log)
	ctx := context.Background()
	for i := range 4 {
		if err := units.Do(ctx, appending(domain.MaxUnlogged/4, int64(i*domain.MaxUnlogged/4))); err != nil {
			t.Fatal(err)
		}
	}
	took := false
	err := units.Do(ctx, func(domain.Counter, domain.AuditLog) error { took = true; return nil })
	if !errors.Is(err, down) || took || units.Unlogged() != domain.MaxUnlogged {
		t.Errorf("beyond the bound: %v, taken %v, %d kept", err, took, units.Unlogged())
	}
	log.set(nil)
	for i := range int64(3) {
		if err := units.Do(ctx, appending(1, domain.MaxUnlogged+i)); err != nil {
			t.Error(err)
		}
	}
	if err := units.Flush(ctx); err != nil || units.Unlogged() != 0 {
		t.Errorf("%v, %d kept", err, units.Unlogged())
	}
	for i, call := range log.calls {
		if call.Count != int64(i) {
			t.Fatalf("call %d is %d", i, call.Count)
		}
	}
	if len(log.calls) != domain.MaxUnlogged+3 {
		t.Errorf("%d calls are logged", len(log.calls))
	}
}

func TestUnitsThatAreApartLogEveryCallOnce(t *testing.T) {
	log := &failingLog{}
	units := domain.Apart(nil, log)
	var group sync.WaitGroup
	for i := range int64(8) {
		group.Go(func() {
			for j := range int64(500) {
				if j%100 == 0 {
					log.set(map[bool]error{true: errors.New("down")}[j%200 == 0])
				}
				if err := units.Do(context.Background(), appending(2, i*10000+j*2)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	log.set(nil)
	if err := units.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	last, seen := map[int64]int64{}, 0
	for _, call := range log.calls {
		if before, ok := last[call.Count/10000]; ok && call.Count != before+1 {
			t.Fatalf("call %d follows %d", call.Count, before)
		}
		last[call.Count/10000] = call.Count
		seen++
	}
	if seen != 8*1000 {
		t.Errorf("%d calls are logged", seen)
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

// slowLog needs time for each call and heeds its context.
type slowLog struct {
	failingLog
	logged atomic.Int64
}

func (l *slowLog) Append(ctx context.Context, calls []domain.Call) error {
	select {
	case <-time.After(time.Duration(len(calls)) * 10 * time.Microsecond):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := l.failingLog.Append(ctx, nil); err != nil {
		return err
	}
	l.logged.Add(int64(len(calls)))
	return nil
}

// What has piled up takes the log longer than a unit may wait.
func TestALogThatIsBackCatchesUpWhileUnitsHaveDeadlines(t *testing.T) {
	log := &slowLog{}
	log.set(errors.New("down"))
	units := domain.Apart(nil, log)
	for range domain.MaxUnlogged / 1024 {
		if err := units.Do(context.Background(), appending(1024, 0)); err != nil {
			t.Fatal(err)
		}
	}
	log.set(nil)
	for begun := time.Now(); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		err := units.Do(ctx, appending(1, 0))
		cancel()
		if err == nil {
			break
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatal(err)
		}
	}
	if err := units.Flush(context.Background()); err != nil || log.logged.Load() != domain.MaxUnlogged+1 {
		t.Errorf("%v, %d logged", err, log.logged.Load())
	}
}

// lateLog keeps its first caller waiting, then fails for it alone.
type lateLog struct {
	failingLog
	called, fail chan struct{}
	once         sync.Once
}

func (l *lateLog) Append(ctx context.Context, calls []domain.Call) (err error) {
	l.once.Do(func() {
		close(l.called)
		<-l.fail
		err = errors.New("down")
	})
	if err != nil {
		return err
	}
	return l.failingLog.Append(ctx, calls)
}

func TestAFlushTriesTheLogAgainAfterAFailureThatBeganBeforeIt(t *testing.T) {
	log := &lateLog{called: make(chan struct{}), fail: make(chan struct{})}
	units := domain.Apart(nil, log)
	if err := units.Do(context.Background(), appending(1, 0)); err != nil {
		t.Fatal(err)
	}
	<-log.called
	flushed := make(chan error)
	go func() { flushed <- units.Flush(context.Background()) }()
	time.Sleep(10 * time.Millisecond) // Flush waits, nearly always
	close(log.fail)
	if err := <-flushed; err != nil || units.Unlogged() != 0 {
		t.Errorf("%v, %d kept", err, units.Unlogged())
	}
}

type panickingLog struct{ domain.AuditLog }

func (panickingLog) Append(context.Context, []domain.Call) error { panic("out of order") }

func TestALogThatPanicsHasFailed(t *testing.T) {
	units := domain.Apart(nil, panickingLog{})
	if err := units.Do(context.Background(), appending(1, 0)); err != nil {
		t.Error(err)
	}
	if err := units.Flush(context.Background()); err == nil || !strings.Contains(err.Error(), "out of order") || units.Unlogged() != 1 {
		t.Errorf("%v, %d kept", err, units.Unlogged())
	}
}

func TestAnIdleUnitTriesTheLogAgainAndTellsOfIt(t *testing.T) {
	log := &failingLog{}
	log.set(errors.New("down"))
	units := domain.Apart(nil, log)
	told := make(chan error, 10)
	units.Notice = func(_ int, err error) { told <- err }
	if err := units.Do(context.Background(), appending(3, 0)); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err == nil {
		t.Error("caught up while the log was down")
	}
	log.set(nil)
	if err := <-told; err != nil {
		t.Error(err)
	}
	if n := units.Unlogged(); n != 0 {
		t.Errorf("%d are unlogged", n)
	}
	log.set(errors.New("down again"))
	if err := units.Do(context.Background(), appending(1, 3)); err != nil {
		t.Fatal(err)
	}
	if err := units.Close(context.Background()); err == nil || units.Unlogged() != 1 {
		t.Errorf("closed with %v, %d unlogged", err, units.Unlogged())
	}
}
