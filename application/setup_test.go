package application_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
)

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// clock is a clock that stands still until it is set.
type clock struct{ nanoseconds atomic.Int64 }

func newClock(t time.Time) *clock {
	c := &clock{}
	c.set(t)
	return c
}

func (c *clock) set(t time.Time)              { c.nanoseconds.Store(t.UnixNano()) }
func (c *clock) advance(d time.Duration)      { c.nanoseconds.Add(int64(d)) }
func (c *clock) now() time.Time               { return time.Unix(0, c.nanoseconds.Load()) }
func (c *clock) options() application.Options { return application.Options{Now: c.now} }

// openStore opens a database in a file that does not exist yet.
func openStore(t testing.TB) *gormstore.Store {
	t.Helper()
	store, err := gormstore.Open(context.Background(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), gormstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

type store interface {
	domain.UnitOfWork
	domain.Counter
	domain.Sweeper
}

// newLimiter starts a limiter that stops when the test ends, with the policy
// "default" and whatever else is given.
func newLimiter(t testing.TB, s store, options application.Options, limit int64, more ...domain.Policy) *application.Limiter {
	t.Helper()
	policies, err := application.NewRules(domain.Rules{Policies: append(more, policy(t, "default", limit, time.Minute))})
	if err != nil {
		t.Fatal(err)
	}
	limiter, stop := application.NewLimiter(policies, application.Stores{Units: s, Counter: s, Sweeper: s}, options)
	t.Cleanup(sync.OnceFunc(stop))
	return limiter
}

func policy(t testing.TB, name string, limit int64, window time.Duration) domain.Policy {
	t.Helper()
	return scheduled(t, name, limit, domain.FormatDuration(window))
}

func scheduled(t testing.TB, name string, limit int64, schedule string) domain.Policy {
	t.Helper()
	s, err := domain.ParseSchedule(schedule)
	if err != nil {
		t.Fatal(err)
	}
	p, err := domain.NewPolicy(name, limit, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func hit(key string, cost int64) domain.Hit {
	return domain.Hit{Key: key, Policies: []string{"default"}, Cost: cost}
}

// mustHit decides a hit and fails the test if there is no decision.
func mustHit(t testing.TB, l *application.Limiter, h domain.Hit) domain.Decision {
	t.Helper()
	d, err := l.Hit(context.Background(), h)
	if err != nil {
		t.Fatalf("Hit(%q, cost %d): %v", h.Key, h.Cost, err)
	}
	return d
}

// wantHits decides hits of key one after the other and compares the outcomes.
func wantHits(t testing.TB, l *application.Limiter, key string, outcomes ...bool) {
	t.Helper()
	for i, allowed := range outcomes {
		if got := mustHit(t, l, hit(key, 1)); got.Allowed != allowed {
			t.Errorf("hit %d of %q: allowed = %v, want %v", i+1, key, got.Allowed, allowed)
		}
	}
}

// wantCounter compares what a look shows.
func wantCounter(t testing.TB, l *application.Limiter, key string, count, refused int64) {
	t.Helper()
	got := mustHit(t, l, hit(key, 0)).Policies[0]
	if got.Count != count || got.Refused != refused {
		t.Errorf("%q has count %d, refused %d; want %d, %d", key, got.Count, got.Refused, count, refused)
	}
}

// sums adds up the log of a key.
func sums(t testing.TB, log domain.AuditLog, key string) (allowed, refused int64) {
	t.Helper()
	query := domain.CallQuery{Key: key, OldestFirst: true, Limit: application.MaxPage}
	for {
		page, err := application.NewHistory(log, application.HistoryOptions{}).Calls(context.Background(), query)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range page {
			if call.Allowed {
				allowed += call.Cost * call.Hits
			} else {
				refused += call.Cost * call.Hits
			}
		}
		if len(page) < query.Limit {
			return allowed, refused
		}
		query.After = page[len(page)-1].ID
	}
}
