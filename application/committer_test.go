package application_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
)

// ill is a store that does what before says before each unit of work.
type ill struct {
	store
	before atomic.Pointer[func() error]
}

func (s *ill) set(before func() error) { s.before.Store(&before) }

func (s *ill) Do(ctx context.Context, work func(domain.Counter, domain.AuditLog) error) error {
	if before := s.before.Load(); before != nil {
		if err := (*before)(); err != nil {
			return err
		}
	}
	return s.store.Do(ctx, work)
}

// awaitStore waits until the limiter has noticed that its store is well.
func awaitStore(t *testing.T, l *application.Limiter) {
	t.Helper()
	for begun := time.Now(); l.Ping(context.Background()) != nil; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the limiter never notices that the store is well")
		}
	}
}

func newIll(t *testing.T) *ill { return &ill{store: openStore(t)} }

func TestAStoreThatFailsIsUnavailableAndCountsNothing(t *testing.T) {
	s := newIll(t)
	l := newLimiter(t, s, newClock(newYear).options(), 3)
	wantHits(t, l, "k", yes)
	cause := errors.New("the disk is full")
	s.set(func() error { return cause })
	_, err := l.Hit(context.Background(), hit("k", 1))
	if !errors.Is(err, domain.ErrUnavailable) || !errors.Is(err, cause) {
		t.Errorf("err = %v", err)
	}
	if err := l.Reset(context.Background(), hit("k", 0)); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("reset: %v", err)
	}
	s.set(func() error { return nil })
	awaitStore(t, l)
	wantHits(t, l, "k", yes, yes, no)
	wantCounter(t, l, "k", 4, 1)
}

func TestAStoreThatPanicsIsUnavailable(t *testing.T) {
	s := newIll(t)
	l := newLimiter(t, s, newClock(newYear).options(), 3)
	s.set(func() error { panic("out of order") })
	_, err := l.Hit(context.Background(), hit("k", 1))
	if !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("err = %v", err)
	}
	s.set(func() error { return nil })
	awaitStore(t, l)
	wantHits(t, l, "k", yes)
}

func TestRefusalsAnsweredWhileTheStoreFailsAreCountedLater(t *testing.T) {
	s := newIll(t)
	reported := make(chan error, 100)
	options := newClock(newYear).options()
	options.Report = func(err error) { reported <- err }
	l := newLimiter(t, s, options, 1)
	wantHits(t, l, "k", yes)
	s.set(func() error { return errors.New("ill") })
	for range 10 {
		wantHits(t, l, "k", no)
	}
	if err := <-reported; !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("reported: %v", err)
	}
	s.set(func() error { return nil })
	awaitStore(t, l)
	wantCounter(t, l, "k", 11, 10)
	if allowed, refused := sums(t, s.store.(domain.AuditLog), "k"); allowed != 1 || refused != 10 {
		t.Errorf("the log has %d allowed and %d refused", allowed, refused)
	}
}

func TestAStoreThatHangsCostsTheTimeoutAndNoGoroutines(t *testing.T) {
	s := newIll(t)
	options := newClock(newYear).options()
	options.Timeout, options.Queue = 50*time.Millisecond, 10
	l := newLimiter(t, s, options, 1000)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	s.set(func() error {
		select {
		case entered <- struct{}{}:
		default:
		}
		<-release
		return nil
	})
	before := runtime.NumGoroutine()

	var overloaded, late atomic.Int64
	var group sync.WaitGroup
	group.Go(func() {
		if _, err := l.Hit(context.Background(), hit("k", 1)); !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("the hit under way: %v", err)
		}
	})
	<-entered // one hit is under way, and stays so
	for range 100 {
		group.Go(func() {
			_, err := l.Hit(context.Background(), hit("k", 1))
			switch {
			case errors.Is(err, domain.ErrOverloaded):
				overloaded.Add(1)
			case errors.Is(err, domain.ErrUnavailable):
				late.Add(1)
			default:
				t.Errorf("err = %v", err)
			}
		})
	}
	group.Wait()
	if n := late.Load(); n != 10 || overloaded.Load() != 90 { // ten may wait
		t.Errorf("%d hits were late and %d turned away", n, overloaded.Load())
	}
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before+5 && time.Now().Before(deadline) {
		runtime.Gosched() // those that have ended go in their time
	}
	if after := runtime.NumGoroutine(); after > before+5 {
		t.Errorf("%d goroutines, %d before", after, before)
	}
	close(release)
	// Only the one that was under way may be counted.
	if count := mustHitWhenReady(t, l); count > 1 {
		t.Errorf("count = %d, want at most 1", count)
	}
}

// mustHitWhenReady hits until the queue takes hits again and returns the count without them.
func mustHitWhenReady(t *testing.T, l *application.Limiter) int64 {
	t.Helper()
	for {
		d, err := l.Hit(context.Background(), hit("k", 1))
		if err == nil {
			return d.Policies[0].Count - 1
		}
		if !errors.Is(err, domain.ErrOverloaded) {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}

func TestAHitEndsWithItsContext(t *testing.T) {
	s := newIll(t)
	l := newLimiter(t, s, newClock(newYear).options(), 3)
	entered, release := make(chan struct{}), make(chan struct{})
	s.set(func() error { close(entered); <-release; return nil })
	go l.Hit(context.Background(), hit("other", 1))
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := l.Hit(ctx, hit("k", 1))
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	s.set(func() error { return nil })
	close(release)
	wantHits(t, l, "k", yes, yes, yes, no)
}

func TestStoppingDecidesWhatWaitsAndCountsWhatWasAnswered(t *testing.T) { // case 128
	store := openStore(t)
	policies, err := application.NewRules(domain.Rules{Policies: []domain.Policy{policy(t, "default", 100, time.Minute)}})
	if err != nil {
		t.Fatal(err)
	}
	l, stop := application.NewLimiter(policies, application.Stores{Units: store, Counter: store}, newClock(newYear).options())
	var allowed, refused, turnedAway atomic.Int64
	var group sync.WaitGroup
	for g := range 32 {
		group.Go(func() {
			for range 100 {
				d, err := l.Hit(context.Background(), hit(fmt.Sprintf("k%d", g%4), 1))
				switch {
				case errors.Is(err, domain.ErrUnavailable):
					turnedAway.Add(1)
				case err != nil:
					t.Error(err)
				case d.Allowed:
					allowed.Add(1)
				default:
					refused.Add(1)
				}
				if allowed.Load() == 350 {
					go stop()
				}
			}
		})
	}
	group.Wait()
	stop()
	if _, err := l.Hit(context.Background(), hit("k0", 1)); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("a hit after the stop: %v", err)
	}
	var loggedAllowed, loggedRefused int64
	for k := range 4 {
		a, r := sums(t, store, fmt.Sprintf("k%d", k))
		loggedAllowed, loggedRefused = loggedAllowed+a, loggedRefused+r
	}
	if loggedAllowed != allowed.Load() || loggedRefused < refused.Load() {
		t.Errorf("answered %d allowed, %d refused; logged %d and %d", allowed.Load(), refused.Load(), loggedAllowed, loggedRefused)
	}
}

func TestManyHitsShareACommit(t *testing.T) {
	s := newIll(t)
	var commits atomic.Int64
	s.set(func() error { commits.Add(1); time.Sleep(2 * time.Millisecond); return nil })
	l := newLimiter(t, s, newClock(newYear).options(), 100000)
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for range 10 {
				mustHit(t, l, hit("k", 1))
			}
		})
	}
	group.Wait()
	if n := commits.Load(); n > 160 {
		t.Errorf("640 hits, 64 at a time, took %d commits", n)
	}
	wantCounter(t, l, "k", 640, 0)
}

func TestHitsTimeOutAlsoWhileOnlyRefusalsAreCommitted(t *testing.T) {
	s := newIll(t)
	options := newClock(newYear).options()
	options.Timeout = 100 * time.Millisecond
	l := newLimiter(t, s, options, 1)
	wantHits(t, l, "k", yes, no)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.set(func() error { once.Do(func() { close(entered) }); <-release; return nil })
	wantHits(t, l, "k", no) // from memory: a commit of refusals alone begins
	<-entered
	begun := time.Now()
	if _, err := l.Hit(context.Background(), hit("other", 1)); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("err = %v", err)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("the hit was given up after %s", took)
	}
	close(release)
}

func TestALookTimesOut(t *testing.T) {
	s := &hungLooks{store: openStore(t)}
	options := newClock(newYear).options()
	options.Timeout = 50 * time.Millisecond
	l := newLimiter(t, s, options, 1)
	if _, err := l.Hit(context.Background(), hit("k", 0)); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("err = %v", err)
	}
}

// hungLooks looks until the context ends.
type hungLooks struct{ store }

func (s *hungLooks) Look(ctx context.Context, _ []domain.Slot) ([]domain.Tally, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A window may be swept while a hit on it waits for the store; the hit must not
// begin it anew.
func TestAHitThatOutlivesItsWindowIsNotAdmitted(t *testing.T) {
	clock := newClock(newYear)
	s := newIll(t)
	l := newLimiter(t, s, clock.options(), 2, policy(t, "short", 2, time.Second))
	short := domain.Hit{Key: "k", Policies: []string{"short"}, Cost: 1}
	mustHit(t, l, short)
	entered, release := make(chan struct{}), make(chan struct{})
	s.set(func() error { close(entered); <-release; return nil })
	ended := make(chan error)
	go func() {
		_, err := l.Hit(context.Background(), domain.Hit{Key: "k", Policies: []string{"short"}, Cost: 2})
		ended <- err
	}()
	<-entered
	clock.advance(2 * time.Second)
	if n, err := l.Prune(context.Background(), nil); n.Windows != 1 || err != nil {
		t.Fatalf("pruned %+v, %v", n, err)
	}
	s.set(func() error { return nil })
	close(release)
	if err := <-ended; !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("err = %v", err)
	}
	if allowed, refused := sums(t, s.store.(domain.AuditLog), "k"); allowed != 1 || refused != 0 {
		t.Errorf("the log has %d allowed and %d refused, want 1 and 0", allowed, refused)
	}
}

func TestStoppingTriesAgainToCountTheLastRefusals(t *testing.T) {
	s := newIll(t)
	policies, err := application.NewRules(domain.Rules{Policies: []domain.Policy{policy(t, "default", 1, time.Minute)}})
	if err != nil {
		t.Fatal(err)
	}
	l, stop := application.NewLimiter(policies, application.Stores{Units: s, Counter: s}, newClock(newYear).options())
	wantHits(t, l, "k", yes, no)
	var failures atomic.Int64
	s.set(func() error {
		if failures.Add(1) <= 3 {
			return errors.New("ill")
		}
		return nil
	})
	wantHits(t, l, "k", no, no, no)
	stop()
	if allowed, refused := sums(t, s.store.(domain.AuditLog), "k"); allowed != 1 || refused != 4 {
		t.Errorf("the log has %d allowed and %d refused, want 1 and 4", allowed, refused)
	}
}

func TestRefusalsOfAQuietKeyAreCountedBesideABusyOne(t *testing.T) {
	store := openStore(t)
	l := newLimiter(t, store, newClock(newYear).options(), 3, policy(t, "free", domain.Unlimited, time.Minute))
	wantHits(t, l, "quiet", yes, yes, yes, no, no)
	wantHits(t, l, "busy", yes, yes, yes, no)
	deadline := time.Now().Add(5 * time.Second)
	for {
		// One that memory answers, then one that has to ask the store about the same window.
		mustHit(t, l, hit("busy", 1))
		mustHit(t, l, domain.Hit{Key: "busy", Policies: []string{"default", "free"}, Cost: 1})
		if _, refused := sums(t, store, "quiet"); refused == 2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the refusals of the quiet key are not counted")
		}
	}
}

func TestRefusalsDoNotPileUpWhileTheStoreFails(t *testing.T) {
	s := newIll(t)
	l := newLimiter(t, s, newClock(newYear).options(), 1, policy(t, "free", domain.Unlimited, time.Minute))
	wantHits(t, l, "k", yes, no, no)
	s.set(func() error { return errors.New("ill") })
	for range 200 {
		wantHits(t, l, "k", no)
		if _, err := l.Hit(context.Background(), domain.Hit{Key: "k", Policies: []string{"default", "free"}, Cost: 1}); !errors.Is(err, domain.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	if n := l.PendingRefusals(); n != 1 {
		t.Errorf("%d refusals are pending, want the one of the one window", n)
	}
	s.set(func() error { return nil })
	awaitStore(t, l)
	wantCounter(t, l, "k", 203, 202)
}

func TestPingTellsWhetherHitsCanBeDecided(t *testing.T) {
	s := newIll(t)
	l := newLimiter(t, s, newClock(newYear).options(), 1)
	if err := l.Ping(context.Background()); err != nil {
		t.Error(err)
	}
	s.set(func() error { return errors.New("ill") })
	if err := l.Ping(context.Background()); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("err = %v", err)
	}
}
