package application_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
)

// outages collects what a limiter tells of its store.
type outages struct {
	mu   sync.Mutex
	told []application.Outage
}

func (o *outages) add(outage application.Outage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, outage)
}

func (o *outages) all() []application.Outage {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.told
}

// A policy says what becomes of hits while the store is down; once it is back they
// are in the log, and the breaker told of two things only.
func TestAPolicyIsOpenOrClosedWhileTheStoreIsDown(t *testing.T) { // cases 118, 119, 121
	s := newIll(t)
	var told outages
	options := newClock(newYear).options()
	options.Timeout, options.Outage = 50*time.Millisecond, told.add
	open, shadow := policy(t, "open", 2, time.Minute), policy(t, "shadow", 2, time.Minute)
	open.FailOpen, shadow.Shadow = true, true
	l := newLimiter(t, s, options, 3, open, shadow)
	cause := errors.New("connection refused")
	s.set(func() error { return cause })

	for i, c := range []struct {
		policies []string
		open     bool
	}{
		{[]string{"open"}, true}, {[]string{"open"}, true}, {[]string{"open"}, true}, {[]string{"default"}, false}, {[]string{"open", "default"}, false},
		{[]string{"open", "shadow"}, true}, {[]string{"shadow"}, true},
	} {
		d, err := l.Hit(context.Background(), domain.Hit{Key: "k", Policies: c.policies, Cost: 1})
		if c.open && (err != nil || !d.Allowed || !d.Unchecked) || !c.open && !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("hit %d by %v: %+v, %v", i+1, c.policies, d, err)
		}
	}
	s.set(func() error { return nil })
	awaitStore(t, l)
	if d := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"open"}, Cost: 1}); d.Unchecked || d.Policies[0].Remaining() != 1 {
		t.Errorf("once the store is back: %+v", d)
	}

	all := told.all()
	if len(all) != 2 || !errors.Is(all[0].Cause, cause) || all[0].Over || !all[1].Over || all[1].Unchecked < 4 || all[1].Undecided < 1 {
		t.Errorf("told %+v", all)
	}
	hits := map[string]int64{}
	deadline := time.Now().Add(10 * time.Second)
	for hits["open"] != 4 && time.Now().Before(deadline) {
		clear(hits)
		for _, call := range callsOf(t, s.store.(domain.AuditLog), "k") {
			if call.Kind == domain.CallUnchecked {
				hits[call.Policy] += call.Hits
			}
		}
	}
	if hits["open"] != 4 || hits["shadow"] != 2 || len(hits) != 2 {
		t.Errorf("unchecked hits in the log: %v", hits)
	}
}

func callsOf(t *testing.T, log domain.AuditLog, key string) []domain.Call {
	t.Helper()
	calls, err := log.Calls(context.Background(), domain.CallQuery{Key: key, OldestFirst: true, Limit: application.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// A store that hangs keeps the first hits waiting for their deadline, and later
// ones not at all; once it goes on it decides again by itself.
func TestAStoreThatHangsIsNotWaitedForTwice(t *testing.T) {
	s := newIll(t)
	options := newClock(newYear).options()
	options.Timeout = 200 * time.Millisecond
	l := newLimiter(t, s, options, 1000)
	var asked atomic.Int64
	release := make(chan struct{})
	s.set(func() error { asked.Add(1); <-release; return nil })
	if _, err := l.Hit(context.Background(), hit("k", 1)); !errors.Is(err, domain.ErrUnavailable) {
		t.Fatalf("the first hit: %v", err)
	}
	for i := range 1000 { // a wait for each would take 200 s
		if _, err := l.Hit(context.Background(), hit("k", 1)); !errors.Is(err, domain.ErrUnavailable) {
			t.Fatalf("hit %d: %v", i+2, err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the store was asked %d times while it hung", n)
	}
	close(release)
	awaitStore(t, l)
	wantHits(t, l, "k", yes)
}

func TestAFailureForAMomentDoesNotOpenTheBreaker(t *testing.T) {
	s := newIll(t)
	var told outages
	options := newClock(newYear).options()
	options.Outage = told.add
	l := newLimiter(t, s, options, 1000)
	for i := range 20 {
		var once sync.Once
		s.set(func() (err error) {
			once.Do(func() { err = errors.New("connection reset") })
			return err
		})
		if _, err := l.Hit(context.Background(), hit("k", 1)); !errors.Is(err, domain.ErrUnavailable) {
			t.Fatalf("round %d: %v", i, err)
		}
		wantHits(t, l, "k", yes)
	}
	if all := told.all(); len(all) != 0 {
		t.Errorf("told %+v", all)
	}
}

func TestUncheckedHitsBeyondTheMemoryAreLoggedWithoutTheirKeys(t *testing.T) {
	s := newIll(t)
	options := newClock(newYear).options()
	options.FullWindows = 10
	open := policy(t, "open", 2, time.Minute)
	open.FailOpen = true
	shadow := policy(t, "shadow", 1000, time.Minute)
	shadow.Shadow = true
	l := newLimiter(t, s, options, 3, open, shadow)
	s.set(func() error { return errors.New("down") })
	for i := range 50 {
		if _, err := l.Hit(context.Background(), domain.Hit{Key: string(rune('A' + i)), Policies: []string{"open"}, Cost: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for cost := range int64(20) { // costs make no more of it
		if _, err := l.Hit(context.Background(), domain.Hit{Key: "z", Policies: []string{"shadow"}, Cost: cost + 1}); err != nil {
			t.Fatal(err)
		}
	}
	s.set(func() error { return nil })
	awaitStore(t, l)
	var hits, rows int64
	for deadline := time.Now().Add(10 * time.Second); hits != 260 && time.Now().Before(deadline); {
		hits, rows = 0, 0
		for _, call := range callsOf(t, s.store.(domain.AuditLog), "") {
			hits, rows = hits+call.Hits, rows+1
		}
	}
	if hits != 260 || rows != 12 { // ten, and the others of each policy: 40, and 1 + 2 + … + 20
		t.Errorf("%d hits in %d rows, want 260 in 12", hits, rows)
	}
}

// The log fails, and everything that only reads works: a disk that is full.
func TestALogThatFailsIsNotTriedWithoutAPause(t *testing.T) {
	s := newIll(t)
	var reports atomic.Int64
	options := newClock(newYear).options()
	options.Report = func(error) { reports.Add(1) }
	open := policy(t, "open", 2, time.Minute)
	open.FailOpen = true
	l := newLimiter(t, &appendFails{s}, options, 3, open)
	for range 3 {
		if d, err := l.Hit(context.Background(), domain.Hit{Key: "k", Policies: []string{"open"}, Cost: 1}); err != nil || !d.Unchecked {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	time.Sleep(300 * time.Millisecond)
	if n := reports.Load(); n < 1 || n > 10 {
		t.Errorf("%d reports", n)
	}
}

// appendFails is a store whose log takes nothing.
type appendFails struct{ *ill }

func (s *appendFails) Do(ctx context.Context, work func(domain.Counter, domain.AuditLog) error) error {
	return s.ill.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error { return work(counter, noAppend{log}) })
}

type noAppend struct{ domain.AuditLog }

func (noAppend) Append(context.Context, []domain.Call) error { return errors.New("the disk is full") }

// A store that answers and takes nothing, because it is full or a replica, is not ready.
func TestAStoreThatTakesNothingIsNotReady(t *testing.T) {
	s := newIll(t)
	l := newLimiter(t, &appendFails{s}, newClock(newYear).options(), 3)
	if err := l.Ping(context.Background()); err != nil {
		t.Fatalf("before anything was tried: %v", err)
	}
	if _, err := l.Hit(context.Background(), hit("k", 1)); !errors.Is(err, domain.ErrUnavailable) {
		t.Fatalf("hit: %v", err)
	}
	if !l.State().Down {
		t.Error("nobody who watches learns of it")
	}
	if err := l.Ping(context.Background()); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("ping: %v", err)
	}
}
