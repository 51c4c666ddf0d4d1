package application_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
)

const yes, no = true, false

func TestALimitOfThreeAllowsThreeAndShowsTheAttemptsBeyond(t *testing.T) {
	clock := newClock(newYear.Add(10 * time.Second))
	store := openStore(t)
	l := newLimiter(t, store, clock.options(), 3)
	wantHits(t, l, "alice", yes, yes)
	third := mustHit(t, l, hit("alice", 1))
	if p := third.Policies[0]; !third.Allowed || p.Remaining() != 0 || p.Window.End != newYear.Add(time.Minute) {
		t.Errorf("the third hit is %+v", third) // case 2: the end of the window, not now
	}
	fourth := mustHit(t, l, hit("alice", 1))
	var exceeded *domain.RateLimitExceeded
	if !errors.As(fourth.Err(), &exceeded) || exceeded.RetryAfter != 50 {
		t.Errorf("the fourth hit is %+v", fourth.Err())
	}
	wantHits(t, l, "alice", no)
	wantHits(t, l, "bob", yes)
	wantCounter(t, l, "alice", 5, 2)
	wantCounter(t, l, "nobody", 0, 0)
	if allowed, refused := sums(t, store, "alice"); allowed != 3 || refused != 2 {
		t.Errorf("the log has %d allowed and %d refused units, want 3 and 2", allowed, refused)
	}
	clock.set(newYear.Add(time.Minute))
	wantHits(t, l, "alice", yes)
}

// Case 1: the answers from memory are those of the store.
func TestRefusalsFromMemoryAreThoseOfTheStore(t *testing.T) {
	for _, windows := range []int{1 << 10, 1} { // with 1 the memory forgets at every turn
		clock := newClock(newYear)
		options := clock.options()
		options.FullWindows = windows
		store := openStore(t)
		l := newLimiter(t, store, options, 10)
		for i := range 10 {
			if d := mustHit(t, l, hit("a", 1)); !d.Allowed || d.Policies[0].Remaining() != int64(9-i) {
				t.Errorf("hit %d: %+v", i+1, d)
			}
		}
		wantHits(t, l, "a", no)
		for _, cost := range []int64{3, 3, 3} {
			mustHit(t, l, hit("b", cost))
		}
		if mustHit(t, l, hit("b", 5)).Allowed { // learned: 9 of 10 used, 5 do not fit
			t.Error("a cost of 5 was allowed with 1 left")
		}
		if mustHit(t, l, hit("b", 5)).Allowed {
			t.Error("a cost of 5 was allowed with 1 left, the second time")
		}
		wantHits(t, l, "b", yes, no, no) // the one that is left
		wantHits(t, l, "a", no)
		wantCounter(t, l, "a", 12, 2)
		wantCounter(t, l, "b", 22, 12)
		if allowed, refused := sums(t, store, "b"); allowed != 10 || refused != 12 {
			t.Errorf("the log of b has %d allowed and %d refused, want 10 and 12", allowed, refused)
		}
	}
}

func TestManyGoroutinesAndTwoLimitersAdmitExactlyTheLimit(t *testing.T) {
	store := openStore(t)
	limiters := []*application.Limiter{
		newLimiter(t, store, application.Options{Now: newClock(newYear).now}, 500),
		newLimiter(t, store, application.Options{Now: newClock(newYear).now, Batch: 3}, 500),
	}
	var admitted atomic.Int64
	var group sync.WaitGroup
	for g := range 64 {
		group.Go(func() {
			for range 5000 / 64 {
				if mustHit(t, limiters[g%2], hit("k", 1)).Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	const hits = 64 * (5000 / 64)
	if admitted.Load() != 500 {
		t.Errorf("%d hits were allowed, want 500", admitted.Load())
	}
	// Each limiter's look shows what it answered itself; both have to be asked first.
	mustHit(t, limiters[0], hit("k", 0))
	wantCounter(t, limiters[1], "k", hits, hits-500)
	if allowed, refused := sums(t, store, "k"); allowed != 500 || refused != hits-500 {
		t.Errorf("the log has %d allowed and %d refused", allowed, refused)
	}
}

// Whatever is hit in whatever order, what was allowed fits the limits, what was
// refused did not, and answers, counters and log agree, also where the answers come
// from a memory that forgets, of policies that slide and of one in shadow.
func TestAnySequenceOfHitsAgreesWithAModel(t *testing.T) {
	store := openStore(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		clock := newClock(newYear)
		dark := policy(t, "dark", 4, time.Minute)
		dark.Shadow = true
		policies := map[string]domain.Policy{
			"default": policy(t, "default", rapid.Int64Range(1, 12).Draw(rt, "limit"), time.Minute),
			"wide":    policy(t, "wide", 20, time.Hour), "slide": scheduled(t, "slide", 6, "sliding 2s"), "dark": dark,
		}
		rules, err := application.NewRules(domain.Rules{Policies: slices.Collect(maps.Values(policies))})
		if err != nil {
			t.Fatal(err)
		}
		options := clock.options()
		options.FullWindows = rapid.IntRange(1, 8).Draw(rt, "memory")
		l, stop := application.NewLimiter(rules, application.Stores{Units: store, Counter: store}, options)
		defer stop()
		type row struct{ used, refused int64 }
		type window struct {
			policy, key string
			start       int64
		}
		model := map[window]row{}
		allowedSum, refusedSum := map[string]int64{}, map[string]int64{}
		subsets := rapid.Permutation([]string{"default", "wide", "slide", "dark"})
		for range rapid.IntRange(1, 40).Draw(rt, "hits") {
			if rapid.IntRange(0, 3).Draw(rt, "waits") == 0 {
				mustHit(t, l, hit("k", 0)) // counts what was refused: a clock that jumps leaves no time to
				clock.advance(time.Duration(rapid.IntRange(1, 2500).Draw(rt, "ms")) * time.Millisecond)
			}
			h := domain.Hit{
				Key:      fmt.Sprintf("%d-%d", run, rapid.IntRange(0, 1).Draw(rt, "key")),
				Policies: subsets.Draw(rt, "policies")[:rapid.IntRange(1, 4).Draw(rt, "of them")],
				Cost:     rapid.Int64Range(1, min(policies["default"].Limit, 6)).Draw(rt, "cost"),
			}
			at, want := clock.now(), true
			windows, refuses := make([]window, len(h.Policies)), make([]bool, len(h.Policies))
			for i, name := range h.Policies {
				p := policies[name]
				span := p.Schedule.At(at)
				windows[i] = window{name, h.Key, span.Start.Unix()}
				used := model[windows[i]].used
				if name == "slide" { // what has not slid out of the two seconds before, rounded up
					before, left := model[window{name, h.Key, span.Start.Unix() - 2}].used, int64(span.End.Sub(at))
					used += (before*left + int64(2*time.Second) - 1) / int64(2*time.Second)
				}
				refuses[i] = used+h.Cost > p.Limit
				want = want && (!refuses[i] || p.Shadow)
			}
			d, err := l.Hit(context.Background(), h)
			if err != nil {
				rt.Fatal(err)
			}
			if d.Allowed != want {
				rt.Fatalf("%+v: allowed = %v, want %v", h, d.Allowed, want)
			}
			for i, w := range windows {
				r := model[w]
				switch {
				case refuses[i]:
					r.refused += h.Cost
					refusedSum[h.Key] += h.Cost
				case want:
					r.used += h.Cost
					allowedSum[h.Key] += h.Cost
				}
				model[w] = r
				if got := d.Policies[i]; got.Used() != r.used || got.Refused != r.refused || got.Refuses != refuses[i] {
					rt.Fatalf("%+v under %s: %+v, want %+v, refuses %v", h, w.policy, got.Tally, r, refuses[i])
				}
			}
		}
		for k := range 2 {
			key := fmt.Sprintf("%d-%d", run, k)
			for name, p := range policies {
				r := model[window{name, key, p.Schedule.At(clock.now()).Start.Unix()}]
				if got := mustHit(t, l, domain.Hit{Key: key, Policies: []string{name}}).Policies[0]; got.Used() != r.used || got.Refused != r.refused {
					rt.Fatalf("%s of %s is %+v, want %+v", name, key, got.Tally, r)
				}
			}
			if allowed, refused := sums(t, store, key); allowed != allowedSum[key] || refused != refusedSum[key] {
				rt.Fatalf("the log of %s has %d allowed and %d refused, want %d and %d", key, allowed, refused, allowedSum[key], refusedSum[key])
			}
		}
	})
}

func TestCostZeroLooksWithoutCountingOrLogging(t *testing.T) { // case 35
	store := openStore(t)
	l := newLimiter(t, store, newClock(newYear).options(), 3)
	wantHits(t, l, "k", yes, yes, yes, no)
	for range 1000 {
		if d := mustHit(t, l, hit("k", 0)); !d.Allowed || d.Policies[0].Count != 4 || d.Policies[0].Remaining() != 0 {
			t.Fatalf("a look shows %+v", d)
		}
	}
	if allowed, refused := sums(t, store, "k"); allowed != 3 || refused != 1 {
		t.Errorf("the log has %d allowed and %d refused", allowed, refused)
	}
}

func TestCostsThatMakeNoSenseAreInvalidAndCountNothing(t *testing.T) { // cases 28, 29, 31, 32
	store := openStore(t)
	l := newLimiter(t, store, newClock(newYear).options(), 10)
	for _, cost := range []int64{-1, -1000, math.MinInt64, 11, 100, 2147483648, domain.MaxUnits, domain.MaxUnits + 1, math.MaxInt64} {
		_, err := l.Hit(context.Background(), hit("k", cost))
		var invalid *domain.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "cost" {
			t.Errorf("cost %d: %v", cost, err)
		}
	}
	wantCounter(t, l, "k", 0, 0)
	for _, c := range []struct {
		cost    int64
		allowed bool
	}{{5, yes}, {5, yes}, {1, no}} {
		if got := mustHit(t, l, hit("k", c.cost)).Allowed; got != c.allowed {
			t.Errorf("cost %d: allowed = %v", c.cost, got)
		}
	}
	wantCounter(t, l, "k", 11, 1)
	if allowed, refused := sums(t, store, "k"); allowed != 10 || refused != 1 {
		t.Errorf("the log has %d allowed and %d refused", allowed, refused)
	}
}

func TestACostAboveTheLimitChargesNothingWhateverTheSchedule(t *testing.T) { // case 28
	store := openStore(t)
	for _, schedule := range []string{"fixed 1m", "sliding 1m", "calendar month Asia/Tokyo"} {
		l := newLimiter(t, store, newClock(newYear).options(), 3, scheduled(t, "ten", 10, schedule))
		ten := func(cost int64) domain.Hit { return domain.Hit{Key: "k", Policies: []string{"ten"}, Cost: cost} }
		if !mustHit(t, l, ten(5)).Allowed {
			t.Errorf("%s: 5 of 10 were refused", schedule)
		}
		var invalid *domain.InvalidError
		if _, err := l.Hit(context.Background(), ten(100)); !errors.As(err, &invalid) {
			t.Errorf("%s: 100 of 10: %v", schedule, err)
		}
		if p := mustHit(t, l, ten(0)).Policies[0]; p.Count != 5 || p.Remaining() != 5 {
			t.Errorf("%s: after 100 of 10: %+v", schedule, p)
		}
		if !mustHit(t, l, ten(5)).Allowed || mustHit(t, l, ten(1)).Allowed {
			t.Errorf("%s: after 5 of 10 another 5 were refused, or 6 were admitted", schedule)
		}
	}
}

func TestLimitZeroBlocksAndUnlimitedDoesNot(t *testing.T) {
	store := openStore(t)
	l := newLimiter(t, store, newClock(newYear).options(), 0, policy(t, "free", domain.Unlimited, time.Minute),
		policy(t, "most", domain.MaxUnits, 365*24*time.Hour))
	wantHits(t, l, "k", no, no)
	for range 3 {
		if d := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"free"}, Cost: domain.MaxUnits}); !d.Allowed {
			t.Error("no limit refused")
		}
	}
	if d := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"most"}, Cost: domain.MaxUnits}); !d.Allowed || d.Policies[0].Remaining() != 0 {
		t.Errorf("the largest cost within the largest limit: %+v", d)
	}
}

func TestHitsThatMakeNoSenseNameWhatIsWrong(t *testing.T) {
	l := newLimiter(t, openStore(t), newClock(newYear).options(), 3)
	for _, c := range []struct {
		hit   domain.Hit
		field string
	}{
		{domain.Hit{Policies: []string{"default"}, Cost: 1}, "key"},
		{domain.Hit{Key: strings.Repeat("x", 513), Policies: []string{"default"}, Cost: 1}, "key"},
		{domain.Hit{Key: "k", Cost: 1}, "policies"},
		{domain.Hit{Key: "k", Policies: []string{"default", "default"}, Cost: 1}, "policies"},
	} {
		var invalid *domain.InvalidError
		if _, err := l.Hit(context.Background(), c.hit); !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("%+v: %v", c.hit, err)
		}
		if err := l.Reset(context.Background(), c.hit); !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("reset %+v: %v", c.hit, err)
		}
	}
	_, err := l.Hit(context.Background(), domain.Hit{Key: "k", Policies: []string{"nope"}, Cost: 1})
	if !errors.Is(err, domain.ErrNotFound) || err.Error() != `there is no policy named "nope"` {
		t.Errorf("unknown policy: %v", err)
	}
}

func TestPoliciesOfOneNameAreRefused(t *testing.T) {
	_, err := application.NewRules(domain.Rules{Policies: []domain.Policy{policy(t, "p", 1, time.Minute), policy(t, "p", 2, time.Minute)}})
	var invalid *domain.InvalidError
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "p is defined twice") {
		t.Errorf("err = %v", err)
	}
}

func TestChangingALimitKeepsTheCounts(t *testing.T) { // cases 49, 86, 143
	store := openStore(t)
	clock := newClock(newYear)
	wantHits(t, newLimiter(t, store, clock.options(), 3), "k", yes, yes, yes, no)
	raised := newLimiter(t, store, clock.options(), 5)
	wantHits(t, raised, "k", yes, yes, no)
	wantHits(t, newLimiter(t, store, clock.options(), 4), "k", no)
}

func TestLimitersOfOneStoreDoNotShareCounters(t *testing.T) { // cases 46, 47
	store := openStore(t)
	l := newLimiter(t, store, newClock(newYear).options(), 3, policy(t, "b", 100, time.Minute), policy(t, "day", 50, 24*time.Hour))
	wantHits(t, l, "k", yes, yes, yes, no)
	if d := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"b"}, Cost: 1}); d.Policies[0].Remaining() != 99 {
		t.Errorf("b: %+v", d)
	}
	if d := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"day", "default"}, Cost: 1}); d.Allowed {
		t.Error("a hit was allowed that one of its policies refuses")
	}
	if d := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"day"}}); d.Policies[0].Count != 0 {
		t.Errorf("day was charged by a refused hit: %+v", d)
	}
}

func TestTheClockMayJump(t *testing.T) { // cases 11, 23, 25
	clock := newClock(newYear.Add(12*time.Hour + 10*time.Second))
	l := newLimiter(t, openStore(t), clock.options(), 3, policy(t, "most", domain.MaxUnits, time.Minute))
	most := domain.Hit{Key: "k", Policies: []string{"most"}, Cost: 1}
	mustHit(t, l, most)
	wantHits(t, l, "k", yes, yes, yes, no)
	clock.advance(-time.Hour)
	for range 5 {
		d := mustHit(t, l, hit("k", 1))
		if p := d.Policies[0]; p.Remaining() < 0 || p.Remaining() > 3 || d.RetryAfter() > 60 || !d.Allowed && d.RetryAfter() < 1 {
			t.Errorf("an hour back: %+v", d)
		}
	}
	clock.advance(time.Hour + 10*time.Second)
	wantCounter(t, l, "k", 4, 1)
	wantHits(t, l, "k", no)
	clock.advance(400 * 24 * time.Hour)
	if d := mustHit(t, l, hit("k", 1)); !d.Allowed || d.Policies[0].Remaining() != 2 {
		t.Errorf("after 400 days: %+v", d)
	}
	if d := mustHit(t, l, most); !d.Allowed || d.Policies[0].Remaining() != domain.MaxUnits-1 {
		t.Errorf("after 400 days: %+v", d)
	}
	clock.set(time.Unix(-10, 0))
	wantHits(t, l, "k", yes, yes, yes)
	if d := mustHit(t, l, hit("k", 1)); d.Allowed || d.RetryAfter() != 10 || d.Policies[0].Window.Start.Unix() != -60 {
		t.Errorf("ten seconds before 1970: %+v", d)
	}
	clock.set(time.Unix(0, 0))
	wantHits(t, l, "k", yes)
}

// Windows come from the schedule and not from the first hit, whoever's clock it was.
func TestLimitersWhoseClocksDifferAgreeOnEachWindow(t *testing.T) { // case 26
	store := openStore(t)
	behind := newClock(newYear.Add(10 * time.Second))
	ahead := newClock(behind.now().Add(90 * time.Second))
	a, b := newLimiter(t, store, behind.options(), 3), newLimiter(t, store, ahead.options(), 3)
	wantHits(t, a, "k", yes, yes, yes, no)
	fromAhead := mustHit(t, b, hit("k", 1)) // in the next minute
	if !fromAhead.Allowed || fromAhead.Policies[0].Remaining() != 2 {
		t.Errorf("90 seconds ahead: %+v", fromAhead)
	}
	wantHits(t, a, "k", no)
	behind.set(newYear.Add(70 * time.Second))
	fromBehind := mustHit(t, a, hit("k", 1))
	if !fromBehind.Allowed || fromBehind.Policies[0].Window != fromAhead.Policies[0].Window || fromBehind.Policies[0].Remaining() != 1 {
		t.Errorf("of the same minute they say %+v and %+v", fromAhead, fromBehind)
	}
	wantHits(t, a, "k", yes, no)
	wantHits(t, b, "k", no)
	behind.advance(time.Minute)
	ahead.advance(time.Minute)
	wantHits(t, a, "k", yes)
	wantHits(t, b, "k", yes)
}

func TestWhoeverWaitsForRetryAfterIsAdmitted(t *testing.T) { // cases 97, 98
	rapid.Check(t, func(rt *rapid.T) {
		clock := newClock(newYear)
		l := newLimiter(t, openStore(t), clock.options(), 1, policy(t, "odd", 1, 7*time.Second))
		for range 10 {
			clock.advance(time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(rt, "pause")))
			h := domain.Hit{Key: "k", Policies: []string{"odd"}, Cost: 1}
			for mustHit(t, l, h).Allowed {
			}
			wait := mustHit(t, l, h).RetryAfter()
			if wait < 1 || wait > 7 {
				rt.Fatalf("retry after %d", wait)
			}
			clock.advance(time.Duration(wait) * time.Second)
			if !mustHit(t, l, h).Allowed {
				rt.Fatalf("refused after waiting %d s", wait)
			}
		}
	})
}

func TestTheLogIsInTheOrderOfRequestsWithTheirTimes(t *testing.T) { // case 155
	clock := newClock(newYear)
	store := openStore(t)
	l := newLimiter(t, store, clock.options(), 1000)
	for i := range 100 {
		clock.advance(time.Millisecond)
		h := hit("k", 1)
		h.RequestID, h.Method, h.Path = fmt.Sprint(i), "GET", "/ping"
		mustHit(t, l, h)
	}
	calls, err := store.Calls(context.Background(), domain.CallQuery{OldestFirst: true, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) != 100 {
		t.Fatalf("%d calls", len(calls))
	}
	for i, call := range calls {
		want := domain.Call{
			ID: int64(i + 1), Kind: domain.CallHit, At: newYear.Add(time.Duration(i+1) * time.Millisecond), Policy: "default", Key: "k",
			Cost: 1, Hits: 1, Allowed: true, Count: int64(i + 1), Limit: 1000, WindowStart: newYear, Schedule: "fixed 1m", Origin: domain.Origin{Method: "GET", Path: "/ping", RequestID: fmt.Sprint(i)},
		}
		if call != want {
			t.Errorf("call %d is\n%+v, want\n%+v", i, call, want)
		}
	}
}

// A fixed window lets twice the limit through around a boundary, and nothing worse.
func TestAFixedWindowAdmitsTheLimitOnEachSideOfABoundary(t *testing.T) { // case 4
	clock := newClock(newYear.Add(59*time.Second + 900*time.Millisecond))
	l := newLimiter(t, openStore(t), clock.options(), 3)
	wantHits(t, l, "k", yes, yes, yes, no)
	clock.advance(100 * time.Millisecond)
	wantHits(t, l, "k", yes, yes, yes, no)
	clock.advance(59*time.Second + 999*time.Millisecond)
	wantHits(t, l, "k", no)
}

func TestAWindowDoesNotOutliveItsEndByAFraction(t *testing.T) { // case 8
	noon := newYear.Add(12 * time.Hour)
	clock := newClock(noon)
	l := newLimiter(t, openStore(t), clock.options(), 3, policy(t, "short", 1, 2*time.Second))
	for _, c := range []struct {
		after   time.Duration
		allowed bool
	}{{900 * time.Millisecond, yes}, {1999 * time.Millisecond, no}, {2000 * time.Millisecond, yes}, {3999 * time.Millisecond, no}, {4 * time.Second, yes}} {
		clock.set(noon.Add(c.after))
		if got := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"short"}, Cost: 1}).Allowed; got != c.allowed {
			t.Errorf("%s after noon: allowed = %v", c.after, got)
		}
	}
}

func TestSlidingRefusesABurstAcrossTheBoundary(t *testing.T) { // case 4
	clock := newClock(newYear.Add(59*time.Second + 900*time.Millisecond))
	l := newLimiter(t, openStore(t), clock.options(), 3, scheduled(t, "sliding", 3, "sliding 1m"))
	wantSliding(t, l, yes, yes, yes)
	clock.advance(100 * time.Millisecond)
	wantSliding(t, l, no, no, no)
}

func TestSlidingForgetsWhatIsWindowsOld(t *testing.T) { // case 5
	clock := newClock(newYear)
	l := newLimiter(t, openStore(t), clock.options(), 3, scheduled(t, "sliding", 10, "sliding 1m"))
	wantSliding(t, l, yes, yes, yes, yes, yes, yes, yes, yes, yes, yes, no)
	clock.advance(10 * time.Minute)
	if d := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"sliding"}}); d.Policies[0].Remaining() != 10 {
		t.Errorf("after ten minutes %+v", d.Policies[0].Tally)
	}
	wantSliding(t, l, yes, yes, yes, yes, yes, yes, yes, yes, yes, yes, no)
}

// A refusal by a sliding window is remembered, and what slides out is not.
func TestASlidingRefusalLastsUntilEnoughHasSlidOut(t *testing.T) {
	clock := newClock(newYear)
	l := newLimiter(t, openStore(t), clock.options(), 3, scheduled(t, "sliding", 10, "sliding 2s"))
	wantSliding(t, l, yes, yes, yes, yes, yes, yes, yes, yes, yes, yes, no)
	clock.advance(2 * time.Second)
	for range 10 { // a unit slides out every 200 ms
		wantSliding(t, l, no, no)
		clock.advance(199 * time.Millisecond)
		wantSliding(t, l, no)
		clock.advance(time.Millisecond)
		wantSliding(t, l, yes)
	}
}

func wantSliding(t *testing.T, l *application.Limiter, outcomes ...bool) {
	t.Helper()
	for i, allowed := range outcomes {
		if got := mustHit(t, l, domain.Hit{Key: "k", Policies: []string{"sliding"}, Cost: 1}).Allowed; got != allowed {
			t.Errorf("hit %d: allowed = %v, want %v", i+1, got, allowed)
		}
	}
}

func TestExtremeRatiosOfLimitAndWindow(t *testing.T) { // cases 38, 40
	clock := newClock(newYear)
	policies := []domain.Policy{
		policy(t, "120-s", 120, time.Second), policy(t, "1-year", 1, 8760*time.Hour), policy(t, "billion-s", 1_000_000_000, time.Second),
		policy(t, "1-decade", 1, 87600*time.Hour), policy(t, "100000-s", 100_000, time.Second), policy(t, "longest", 1, domain.MaxWindow),
	}
	l := newLimiter(t, openStore(t), clock.options(), 3, policies...)
	for _, p := range policies {
		last := domain.Hit{Key: "k", Policies: []string{p.Name}, Cost: p.Limit}
		one := domain.Hit{Key: "k", Policies: []string{p.Name}, Cost: 1}
		if d := mustHit(t, l, last); !d.Allowed || d.Policies[0].Remaining() != 0 {
			t.Errorf("%s: the whole limit at once: %+v", p.Name, d)
		}
		if d := mustHit(t, l, one); d.Allowed || d.RetryAfter() < 1 || d.RetryAfter() > d.Policies[0].Window.Seconds() {
			t.Errorf("%s: one more: %+v", p.Name, d)
		}
	}
}
