package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Store is what an adapter implements that keeps counters and log together.
type Store interface {
	domain.UnitOfWork
	domain.Counter
	domain.AuditLog
}

// Run runs the contract of all ports that a store has. open returns a handle on
// one and the same store at each call within a test, as another process would have
// it; it closes the handle when the test ends. If the store implements
// [domain.Sweeper] or [domain.Quotas], that is tested too.
func Run(t *testing.T, open func(t *testing.T) Store) {
	Counter(t, func(t *testing.T) domain.Counter { return open(t) })
	AuditLog(t, func(t *testing.T) domain.AuditLog { return open(t) })
	UnitOfWork(t, open)
	if _, ok := open(t).(QuotaStore); ok {
		Quotas(t, func(t *testing.T) QuotaStore { return open(t).(QuotaStore) })
	}
}

// Counter runs the contract of [domain.Counter], and of [domain.Sweeper] if the
// store implements it. For open see [Run].
func Counter(t *testing.T, open func(t *testing.T) domain.Counter) {
	t.Run("Take", func(t *testing.T) { testTake(t, open(t)) })
	t.Run("Concurrency", func(t *testing.T) { testConcurrency(t, open(t), open(t)) })
	t.Run("Keys", func(t *testing.T) { testKeys(t, open(t)) })
	t.Run("Reset", func(t *testing.T) { testReset(t, open(t)) })
	t.Run("Sweep", func(t *testing.T) {
		counter := open(t)
		sweeper, ok := counter.(domain.Sweeper)
		if !ok {
			t.Log("the store forgets by itself: it is no Sweeper")
			return
		}
		testSweep(t, counter, sweeper)
	})
}

// AuditLog runs the contract of [domain.AuditLog]. For open see [Run].
func AuditLog(t *testing.T, open func(t *testing.T) domain.AuditLog) {
	t.Run("AuditLog", func(t *testing.T) { testAuditLog(t, open(t)) })
}

// UnitOfWork runs the contract of [domain.UnitOfWork] for a store that keeps
// counters and log in one transaction. For open see [Run].
func UnitOfWork(t *testing.T, open func(t *testing.T) Store) {
	t.Run("UnitOfWork", func(t *testing.T) { testUnitOfWork(t, open(t)) })
}

// Quotas runs the contract of [domain.Quotas]. For open see [Run].
func Quotas(t *testing.T, open func(t *testing.T) QuotaStore) {
	t.Run("Quotas", func(t *testing.T) { testQuotas(t, open(t), open(t)) })
}

// at is the time of all hits: it lies in a window of every length from its start on.
var at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// draw is a key or the name of a policy that nobody else uses.
func draw(prefix string) string { return fmt.Sprintf("%s-%016x", prefix, rand.Uint64()) }

// slot is a slot of a one-minute window at the given time.
func slot(policy, key string, limit int64, at time.Time) domain.Slot {
	start := at.Truncate(time.Minute)
	end := start.Add(time.Minute)
	return domain.Slot{
		Policy: policy, Key: key, Schedule: "fixed 1m", Limit: limit, Window: domain.Window{Start: start, End: end}, Expires: end.Add(time.Minute),
	}
}

func take(cost int64, slots ...domain.Slot) domain.Take { return domain.Take{Slots: slots, Cost: cost} }

// mustTake takes and fails the test on an error or an answer of the wrong shape.
func mustTake(t *testing.T, counter domain.Counter, takes ...domain.Take) []domain.Taken {
	t.Helper()
	taken, err := counter.Take(context.Background(), takes)
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	if len(taken) != len(takes) {
		t.Fatalf("Take answered %d takes with %d results", len(takes), len(taken))
	}
	for i := range taken {
		if len(taken[i].Tallies) != len(takes[i].Slots) {
			t.Fatalf("take %d has %d slots and %d tallies", i, len(takes[i].Slots), len(taken[i].Tallies))
		}
	}
	return taken
}

// wantTaken compares one result.
func wantTaken(t *testing.T, got domain.Taken, allowed bool, tallies ...domain.Tally) {
	t.Helper()
	if got.Allowed != allowed {
		t.Errorf("allowed = %v, want %v", got.Allowed, allowed)
	}
	for i, want := range tallies {
		if got.Tallies[i] != want {
			t.Errorf("tally of slot %d = %+v, want %+v", i, got.Tallies[i], want)
		}
	}
}

// wantLook compares what the store holds.
func wantLook(t *testing.T, counter domain.Counter, s domain.Slot, want domain.Tally) {
	t.Helper()
	looked, err := counter.Look(context.Background(), []domain.Slot{s})
	if err != nil {
		t.Fatalf("Look: %v", err)
	}
	if len(looked) != 1 || looked[0] != want {
		t.Errorf("Look at (%q, %q, %s) = %+v, want %+v", s.Policy, s.Key, s.Window.Start.Format(time.RFC3339), looked, want)
	}
}
