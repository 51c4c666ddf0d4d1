package storetest

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func testTake(t *testing.T, store domain.Counter) {
	tally := func(count, refused int64) domain.Tally { return domain.Tally{Count: count, Refused: refused} }
	refusing := func(count, refused int64) domain.Tally {
		return domain.Tally{Count: count, Refused: refused, Refuses: true}
	}

	t.Run("admits exactly the limit and shows the attempts beyond", func(t *testing.T) {
		s := slot("p", draw("key"), 3, at)
		for i := int64(1); i <= 3; i++ {
			wantTaken(t, mustTake(t, store, take(1, s))[0], true, tally(i, 0))
		}
		wantTaken(t, mustTake(t, store, take(1, s))[0], false, refusing(4, 1))
		wantTaken(t, mustTake(t, store, take(1, s))[0], false, refusing(5, 2))
		wantLook(t, store, s, tally(5, 2))
	})

	t.Run("refused units are not charged", func(t *testing.T) {
		s := slot("p", draw("key"), 10, at)
		mustTake(t, store, take(8, s))
		wantTaken(t, mustTake(t, store, take(5, s))[0], false, refusing(13, 5))
		wantTaken(t, mustTake(t, store, take(2, s))[0], true, tally(15, 5))
		wantTaken(t, mustTake(t, store, take(1, s))[0], false, refusing(16, 6))
	})

	t.Run("takes of one call are decided in order", func(t *testing.T) {
		s := slot("p", draw("key"), 3, at)
		taken := mustTake(t, store, take(2, s), take(2, s), take(1, s), take(1, s))
		wantTaken(t, taken[0], true, tally(2, 0))
		wantTaken(t, taken[1], false, refusing(4, 2))
		wantTaken(t, taken[2], true, tally(5, 2))
		wantTaken(t, taken[3], false, refusing(6, 3))
		wantLook(t, store, s, tally(6, 3))
	})

	t.Run("a take is all or nothing, whatever the order of its slots", func(t *testing.T) {
		key := draw("key")
		wide, narrow := slot("wide", key, 100, at), slot("narrow", key, 1, at)
		mustTake(t, store, take(1, wide, narrow))
		wantTaken(t, mustTake(t, store, take(1, wide, narrow))[0], false, tally(1, 0), refusing(2, 1))
		wantTaken(t, mustTake(t, store, take(1, narrow, wide))[0], false, refusing(3, 2), tally(1, 0))
		wantLook(t, store, wide, tally(1, 0))
		wantLook(t, store, narrow, tally(3, 2))
	})

	t.Run("a slot in shadow has no say and keeps its own truth", func(t *testing.T) {
		key := draw("key")
		wide, shadow := slot("wide", key, 3, at), slot("shadow", key, 1, at)
		shadow.Shadow = true
		wantTaken(t, mustTake(t, store, take(1, shadow, wide))[0], true, tally(1, 0), tally(1, 0))
		wantTaken(t, mustTake(t, store, take(1, shadow, wide))[0], true, refusing(2, 1), tally(2, 0))
		wantTaken(t, mustTake(t, store, take(1, wide, shadow))[0], true, tally(3, 0), refusing(3, 2))
		wantTaken(t, mustTake(t, store, take(1, wide, shadow))[0], false, refusing(4, 1), refusing(4, 3))
		roomy := slot("roomy", key, 9, at)
		roomy.Shadow = true
		wantTaken(t, mustTake(t, store, take(1, roomy, wide))[0], false, tally(0, 0), refusing(5, 2))
		shadow.Shadow, shadow.Limit = false, 2 // turned live: one unit was used, not four
		wantTaken(t, mustTake(t, store, take(1, shadow))[0], true, tally(5, 3))
	})

	t.Run("a refusal decided before is only counted", func(t *testing.T) {
		s := slot("p", draw("key"), 100, at)
		told := domain.Take{Slots: []domain.Slot{s}, Cost: 7, Refused: true}
		wantTaken(t, mustTake(t, store, told)[0], false, refusing(7, 7))
		wantLook(t, store, s, tally(7, 7))
	})

	t.Run("a changed limit keeps the counts", func(t *testing.T) {
		key := draw("key")
		for range 5 {
			mustTake(t, store, take(1, slot("p", key, 3, at)))
		}
		wantTaken(t, mustTake(t, store, take(2, slot("p", key, 5, at)))[0], true, tally(7, 2))
		wantTaken(t, mustTake(t, store, take(1, slot("p", key, 5, at)))[0], false, refusing(8, 3))
	})

	t.Run("a limit of 0 refuses and no limit allows", func(t *testing.T) {
		wantTaken(t, mustTake(t, store, take(1, slot("p", draw("key"), 0, at)))[0], false, refusing(1, 1))
		wantTaken(t, mustTake(t, store, take(domain.MaxUnits, slot("p", draw("key"), domain.Unlimited, at)))[0], true, tally(domain.MaxUnits, 0))
	})

	t.Run("windows are independent", func(t *testing.T) {
		key := draw("key")
		now, next := slot("p", key, 1, at), slot("p", key, 1, at.Add(time.Minute))
		wantTaken(t, mustTake(t, store, take(1, now))[0], true, tally(1, 0))
		wantTaken(t, mustTake(t, store, take(1, next))[0], true, tally(1, 0))
		wantLook(t, store, slot("p", key, 1, at.Add(-time.Minute)), tally(0, 0))
	})

	t.Run("a changed schedule starts anew and the old one keeps its counts", func(t *testing.T) {
		s := slot("p", draw("key"), 2, at)
		mustTake(t, store, take(2, s))
		other := s
		other.Schedule, other.Window.End, other.Expires = "fixed 1h", at.Add(time.Hour), at.Add(2*time.Hour)
		wantTaken(t, mustTake(t, store, take(1, other))[0], true, tally(1, 0))
		wantLook(t, store, s, tally(2, 0))
	})

	t.Run("windows before 1970 are windows", func(t *testing.T) {
		s := slot("p", draw("key"), 1, at)
		s.Window = domain.Window{Start: time.Unix(-60, 0).UTC(), End: time.Unix(0, 0).UTC()}
		mustTake(t, store, take(1, s))
		wantTaken(t, mustTake(t, store, take(1, s))[0], false, refusing(2, 1))
	})

	t.Run("a previous window weighs in, rounded up", func(t *testing.T) {
		key := draw("key")
		before, now := slot("p", key, 10, at.Add(-time.Minute)), slot("p", key, 10, at)
		now.Previous = domain.Previous{Window: before.Window, Num: 1, Den: 3}
		for range 12 { // 10 used, 2 refused: only what was used is carried
			mustTake(t, store, take(1, before))
		}
		wantTaken(t, mustTake(t, store, take(6, now))[0], true, domain.Tally{Count: 6, Previous: 10, Carry: 4})
		wantTaken(t, mustTake(t, store, take(1, now))[0], false, domain.Tally{Count: 7, Refused: 1, Previous: 10, Carry: 4, Refuses: true})
		wantLook(t, store, now, domain.Tally{Count: 7, Refused: 1, Previous: 10, Carry: 4})
	})

	t.Run("a batch sees its own takes in the previous window", func(t *testing.T) {
		key := draw("key")
		before, now := slot("p", key, 10, at.Add(-time.Minute)), slot("p", key, 10, at)
		now.Previous = domain.Previous{Window: before.Window, Num: 1, Den: 1}
		taken := mustTake(t, store, take(10, before), take(1, now))
		wantTaken(t, taken[1], false, domain.Tally{Count: 1, Refused: 1, Previous: 10, Carry: 10, Refuses: true})
	})

	t.Run("counts have 64 bits and do not wrap", func(t *testing.T) {
		s := slot("p", draw("key"), domain.Unlimited, at)
		told := domain.Take{Slots: []domain.Slot{s}, Cost: math.MaxInt64 - 1, Refused: true}
		wantTaken(t, mustTake(t, store, told)[0], false, refusing(math.MaxInt64-1, math.MaxInt64-1))
		wantTaken(t, mustTake(t, store, told)[0], false, refusing(math.MaxInt64, math.MaxInt64))
		wantLook(t, store, s, tally(math.MaxInt64, math.MaxInt64))
	})

	t.Run("many windows in one call", func(t *testing.T) {
		takes := make([]domain.Take, 1000)
		for i := range takes {
			takes[i] = take(1, slot("p", draw("key"), 1, at))
		}
		for _, taken := range mustTake(t, store, takes...) {
			wantTaken(t, taken, true, tally(1, 0))
		}
		for _, taken := range mustTake(t, store, takes...) {
			wantTaken(t, taken, false, refusing(2, 1))
		}
	})

	t.Run("nothing is taken once the context has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s := slot("p", draw("key"), 1, at)
		if _, err := store.Take(ctx, []domain.Take{take(1, s)}); err == nil {
			t.Error("Take succeeded")
		}
		wantLook(t, store, s, tally(0, 0))
	})
}

// testConcurrency drives two handles from many goroutines.
func testConcurrency(t *testing.T, handles ...domain.Counter) {

	t.Run("exactly the limit is admitted through two handles", func(t *testing.T) {
		const limit, hits = 500, 64 * 20
		s := slot("p", draw("key"), limit, at)
		var admitted atomic.Int64
		concurrently(64, func(g int) {
			for range hits / 64 {
				if mustTake(t, handles[g%2], take(1, s))[0].Allowed {
					admitted.Add(1)
				}
			}
		})
		if admitted.Load() != limit {
			t.Errorf("%d units were admitted, want %d", admitted.Load(), limit)
		}
		for _, handle := range handles {
			wantLook(t, handle, s, domain.Tally{Count: hits, Refused: hits - limit})
		}
	})

	t.Run("slots in mixed order are charged together", func(t *testing.T) {
		key := draw("key")
		a, b := slot("a", key, 100, at), slot("b", key, 150, at)
		var admitted atomic.Int64
		concurrently(32, func(g int) {
			order := take(1, a, b)
			if g/2%2 == 1 {
				order = take(1, b, a)
			}
			for range 10 {
				if mustTake(t, handles[g%2], order)[0].Allowed {
					admitted.Add(1)
				}
			}
		})
		if admitted.Load() != 100 {
			t.Errorf("%d takes were admitted, want 100", admitted.Load())
		}
		wantLook(t, handles[0], a, domain.Tally{Count: 320, Refused: 220})
		wantLook(t, handles[0], b, domain.Tally{Count: 100})
	})
}

// concurrently runs f in n goroutines at a time and waits for all.
func concurrently(n int, f func(g int)) {
	var group sync.WaitGroup
	for g := range n {
		group.Go(func() { f(g) })
	}
	group.Wait()
}

func testKeys(t *testing.T, store domain.Counter) {
	unique := draw("")
	longest := strings.Repeat("x", domain.MaxKeyBytes-len(unique)-1) + unique
	// Each of these is a key of its own: none is trimmed, folded, cut, joined or taken for a pattern.
	keys := []string{
		"abc" + unique, "ABC" + unique, "abc" + unique + " ", " abc" + unique,
		"\u00e9" + unique, "e\u0301" + unique, // one letter, composed and decomposed
		"😀" + unique, "' OR 1=1--" + unique, `"` + unique, `\` + unique,
		"%" + unique, "_" + unique, "*" + unique, "?" + unique, "[a]" + unique, "{a}" + unique,
		"0" + unique, "00" + unique, "1e3" + unique, "a:b" + unique, "a/b" + unique, "a\u00a0b" + unique,
		longest + "a", longest + "b",
	}
	for i, key := range keys {
		mustTake(t, store, take(int64(i+1), slot("p", key, 1000, at)))
	}
	for i, key := range keys {
		wantLook(t, store, slot("p", key, 1000, at), domain.Tally{Count: int64(i + 1)})
	}

	t.Run("policy and key do not run into each other", func(t *testing.T) {
		c := draw("c")
		mustTake(t, store, take(1, slot("a", "b:"+c, 10, at)))
		wantLook(t, store, slot("a:b", c, 10, at), domain.Tally{})
		mustTake(t, store, take(2, slot("A", "b:"+c, 10, at)))
		wantLook(t, store, slot("a", "b:"+c, 10, at), domain.Tally{Count: 1})
	})
}

func testReset(t *testing.T, store domain.Counter) {
	ctx := context.Background()

	t.Run("forgets all windows of the key under the policy and nothing else", func(t *testing.T) {
		unique := draw("")
		keys := []string{"user_1" + unique, "userA1" + unique, "user%" + unique, "user1" + unique, "user10" + unique}
		for _, key := range keys {
			mustTake(t, store, take(1, slot("p", key, 10, at)), take(1, slot("q", key, 10, at)), take(1, slot("p", key, 10, at.Add(time.Hour))))
		}
		for i, key := range keys {
			if err := store.Reset(ctx, "p", key); err != nil {
				t.Fatalf("Reset: %v", err)
			}
			for j, other := range keys {
				want := domain.Tally{Count: 1}
				if j <= i {
					want = domain.Tally{}
				}
				wantLook(t, store, slot("p", other, 10, at), want)
				wantLook(t, store, slot("p", other, 10, at.Add(time.Hour)), want)
				wantLook(t, store, slot("q", other, 10, at), domain.Tally{Count: 1})
			}
		}
	})

	t.Run("is no error for what was never hit", func(t *testing.T) {
		if err := store.Reset(ctx, "p", draw("key")); err != nil {
			t.Errorf("Reset: %v", err)
		}
	})

	t.Run("leaves a sound counter behind when hits run beside it", func(t *testing.T) {
		s := slot("p", draw("key"), 10, at)
		concurrently(8, func(g int) {
			for range 20 {
				if g > 0 {
					mustTake(t, store, take(1, s))
				} else if err := store.Reset(ctx, s.Policy, s.Key); err != nil {
					t.Errorf("Reset: %v", err)
				}
			}
		})
		looked, err := store.Look(ctx, []domain.Slot{s})
		if err != nil {
			t.Fatal(err)
		}
		if got := looked[0]; got.Refused < 0 || got.Used() < 0 || got.Used() > 10 {
			t.Errorf("after resets beside hits the tally is %+v", got)
		}
		if err := store.Reset(ctx, s.Policy, s.Key); err != nil {
			t.Fatal(err)
		}
		wantLook(t, store, s, domain.Tally{})
	})
}

func testSweep(t *testing.T, store domain.Counter, sweeper domain.Sweeper) {
	ctx := context.Background()
	sweep := func(now time.Time, limit int) int {
		t.Helper()
		removed, err := sweeper.Sweep(ctx, now, limit)
		if err != nil {
			t.Fatalf("Sweep: %v", err)
		}
		return removed
	}
	// Windows so old that only this test has any, so that it can count what goes.
	old := time.Date(1901, 1, 1, 0, 0, 0, 0, time.UTC)
	key := draw("key")
	short, long := slot("short", key, 10, old), slot("long", key, 10, old)
	long.Window.End = old.Add(24 * time.Hour)
	long.Expires = old.Add(48 * time.Hour)
	mustTake(t, store, take(1, short, long))

	sweep(short.Expires.Add(-time.Second), 1000)
	wantLook(t, store, short, domain.Tally{Count: 1})
	if n := sweep(short.Expires, 1000); n != 1 {
		t.Errorf("%d windows were removed at the expiry of one", n)
	}
	wantLook(t, store, short, domain.Tally{})
	wantLook(t, store, long, domain.Tally{Count: 1})

	var takes []domain.Take
	for range 25 {
		takes = append(takes, take(1, slot("short", draw("key"), 10, old)))
	}
	mustTake(t, store, takes...)
	for _, want := range []int{10, 10, 5, 0} {
		if n := sweep(short.Expires, 10); n != want {
			t.Errorf("a sweep of at most 10 removed %d, want %d", n, want)
		}
	}
	sweep(long.Expires, 1000)
}
