package storetest

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func testReset(t *testing.T, handles ...domain.Counter) {
	ctx := context.Background()
	store := handles[0]
	reset := func(t *testing.T, store domain.Counter, policy, key string) {
		t.Helper()
		if err := store.Reset(ctx, policy, key); err != nil {
			t.Errorf("Reset: %v", err)
		}
	}

	t.Run("forgets all windows of the key under the policy and nothing else", func(t *testing.T) {
		unique := draw("")
		keys := []string{"user_1" + unique, "userA1" + unique, "user%" + unique, "user*" + unique, "User1" + unique, "user1" + unique,
			"user1" + unique + ":x", "user1" + unique + " ", "user10" + unique, "x:user1" + unique}
		windows := func(policy, key string) []domain.Slot {
			day := slot(policy, key, 10, at)
			day.Schedule = "fixed 24h"
			return []domain.Slot{slot(policy, key, 10, at.Add(-time.Hour)), slot(policy, key, 10, at), slot(policy, key, 10, at.Add(time.Hour)), day}
		}
		for _, key := range keys {
			mustTake(t, store, take(1, windows("p", key)...), take(1, windows("q", key)...), take(1, windows("P", key)...))
		}
		for i, key := range keys {
			reset(t, store, "p", key)
			for j, other := range keys {
				for _, policy := range []string{"p", "q", "P"} {
					want := tally(1, 0)
					if policy == "p" && j <= i {
						want = domain.Tally{}
					}
					looked, err := store.Look(ctx, windows(policy, other))
					if err != nil {
						t.Fatal(err)
					}
					for w := range looked {
						if looked[w] != want {
							t.Errorf("after the reset of %q under p, window %d of %q under %s holds %+v, want %+v", key, w, other, policy, looked[w], want)
						}
					}
				}
			}
		}
	})

	t.Run("is no error for what was never hit, and twice is as good as once", func(t *testing.T) {
		s := slot("p", draw("key"), 1, at)
		reset(t, store, s.Policy, s.Key)
		mustTake(t, store, take(1, s))
		reset(t, handles[1], s.Policy, s.Key)
		reset(t, store, s.Policy, s.Key)
		wantTaken(t, mustTake(t, store, take(1, s))[0], true, tally(1, 0))
		wantTaken(t, mustTake(t, handles[1], take(1, s))[0], false, refusing(2, 1))
	})

	t.Run("forgets what a window that slides carries", func(t *testing.T) {
		key := draw("key")
		mustTake(t, store, take(5, slot("p", key, 10, at.Add(-time.Minute))))
		reset(t, store, "p", key)
		wantTaken(t, mustTake(t, store, take(10, sliding("p", key, 10, 1, 1)))[0], true, tally(10, 0))
	})

	// The windows of the key are hit together and forgotten together, so that they are
	// always alike; and each reset lets the limit in once more, never twice.
	t.Run("beside running hits it forgets all or nothing", func(t *testing.T) {
		const limit, resets = 10, 16 * 2
		minute := slot("p", draw("key"), limit, at)
		hour := minute
		hour.Schedule = "fixed 1h"
		var admitted atomic.Int64
		concurrently(16, func(g int) {
			for i := range 20 {
				if i%10 == g%10 {
					reset(t, handles[g%2], minute.Policy, minute.Key)
				}
				taken := mustTake(t, handles[g/2%2], take(1, minute, hour))[0]
				if taken.Tallies[0] != taken.Tallies[1] {
					t.Errorf("windows that are hit together hold %+v", taken.Tallies)
				}
				if taken.Allowed {
					admitted.Add(1)
				}
			}
		})
		a, b := look(t, handles[0], minute), look(t, handles[1], hour)
		if a != b || a.Refused < 0 || a.Used() < 0 || a.Used() > limit {
			t.Errorf("after resets beside hits the windows hold %+v and %+v", a, b)
		}
		if n := admitted.Load(); n < limit || n > limit*(resets+1) {
			t.Errorf("%d units were admitted with a limit of %d and %d resets", n, limit, resets)
		}
		reset(t, handles[1], minute.Policy, minute.Key)
		wantLook(t, handles[0], minute, domain.Tally{})
		wantLook(t, handles[0], hour, domain.Tally{})
	})
}

func testSweep(t *testing.T, store domain.Counter, sweeper domain.Sweeper) {
	ctx := context.Background()
	sweep := func(t *testing.T, now time.Time, limit int) int {
		t.Helper()
		removed, err := sweeper.Sweep(ctx, now, limit)
		if err != nil {
			t.Errorf("Sweep: %v", err)
		}
		return removed
	}
	// clean removes what earlier runs left, so that what goes can be counted.
	clean := func(t *testing.T, now time.Time) {
		t.Helper()
		for sweep(t, now, 1000) == 1000 {
		}
	}
	// old is an instant so long ago that nobody else has windows there.
	old := time.Date(1801, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rand.IntN(150*365*24*60)) * time.Minute)

	t.Run("a live window is never removed", func(t *testing.T) {
		key := draw("key")
		clean(t, old)
		short, long := slot("short", key, 10, old), slot("long", key, 10, old)
		long.Window.End = old.Add(24 * time.Hour)
		long.Expires = old.Add(48 * time.Hour)
		live := slot("live", key, 10, at)
		mustTake(t, store, take(1, short, long, live))
		if n := sweep(t, short.Expires.Add(-1), 1000); n != 0 {
			t.Errorf("%d windows were removed before any had expired", n)
		}
		wantLook(t, store, short, tally(1, 0))
		if n := sweep(t, short.Expires, 1000); n != 1 {
			t.Errorf("%d windows were removed at the expiry of one", n)
		}
		wantLook(t, store, short, tally(0, 0))
		wantLook(t, store, long, tally(1, 0))
		clean(t, long.Expires)
		wantLook(t, store, long, tally(0, 0))
		wantLook(t, store, live, tally(1, 0))
	})

	t.Run("hits, looks and refusals do not renew a window", func(t *testing.T) {
		clean(t, old)
		s := slot("p", draw("key"), 2, old)
		slides := slot("p", s.Key, 2, old.Add(time.Minute))
		slides.Previous = domain.Previous{Window: s.Window, Num: 1, Den: 2}
		for range 4 {
			mustTake(t, store, take(1, s))
			look(t, store, s)
		}
		mustTake(t, store, take(1, slides)) // looks back at s, and is not s
		if n := sweep(t, s.Expires, 1000); n != 1 {
			t.Errorf("%d windows were removed at the expiry of one that was hit often", n)
		}
		wantLook(t, store, s, tally(0, 0))
		clean(t, slides.Expires)
	})

	t.Run("removes at most so many, and fewer only if none is left", func(t *testing.T) {
		clean(t, old)
		takes := make([]domain.Take, 25)
		for i := range takes {
			takes[i] = take(1, slot("p", draw("key"), 10, old))
		}
		mustTake(t, store, takes...)
		for _, want := range []int{10, 10, 5, 0} {
			if n := sweep(t, takes[0].Slots[0].Expires, 10); n != want {
				t.Errorf("a sweep of at most 10 removed %d, want %d", n, want)
			}
		}
		wantLook(t, store, takes[24].Slots[0], tally(0, 0))
	})

	t.Run("what was reset is not swept as well", func(t *testing.T) {
		clean(t, old)
		s := slot("p", draw("key"), 10, old)
		mustTake(t, store, take(1, s))
		if err := store.Reset(ctx, s.Policy, s.Key); err != nil {
			t.Fatal(err)
		}
		if n := sweep(t, s.Expires, 10); n != 0 {
			t.Errorf("%d windows were removed, the only one had been reset", n)
		}
		mustTake(t, store, take(1, s))
		if n := sweep(t, s.Expires, 10); n != 1 {
			t.Errorf("%d windows were removed, want the one that was hit after the reset", n)
		}
	})

	t.Run("a sweep beside running hits takes nothing that lives", func(t *testing.T) {
		s := slot("p", draw("key"), 100, at)
		var admitted atomic.Int64
		concurrently(16, func(g int) {
			for i := range 20 {
				if i%5 == g%5 {
					mustTake(t, store, take(1, slot("p", draw("key"), 1, old)))
					sweep(t, time.Now(), 10)
				}
				if mustTake(t, store, take(1, s))[0].Allowed {
					admitted.Add(1)
				}
			}
		})
		if admitted.Load() != 100 {
			t.Errorf("%d units were admitted beside sweeps, want 100", admitted.Load())
		}
		wantLook(t, store, s, tally(16*20, 16*20-100))
		clean(t, old.Add(2*time.Minute))
	})

	t.Run("ends with the context", func(t *testing.T) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		s := slot("p", draw("key"), 1, old)
		mustTake(t, store, take(1, s))
		if err := promptly(t, "Sweep", func() error { _, err := sweeper.Sweep(ended, s.Expires, 10); return err }); err == nil {
			t.Error("Sweep succeeded")
		}
		wantLook(t, store, s, tally(1, 0))
		clean(t, s.Expires)
	})
}
