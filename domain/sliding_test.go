package domain_test

import (
	"maps"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// slider hits one key of a sliding policy as a limiter does, and keeps windows as a store does.
type slider struct {
	schedule domain.Schedule
	limit    int64
	windows  map[int64]domain.Tally // by start
}

func (s *slider) hit(at time.Time, cost int64) domain.Decision {
	window := s.schedule.At(at)
	takes := []domain.Take{{Cost: cost, Slots: []domain.Slot{{
		Policy: "p", Key: "k", Schedule: s.schedule.String(), Window: window, Limit: s.limit,
		Previous: s.schedule.Previous(window, at), Expires: s.schedule.Expiry(window),
	}}}}
	ledger := domain.NewLedger(takes)
	for i := range ledger.Windows {
		ledger.Windows[i].Tally = s.windows[ledger.Windows[i].Start.Unix()]
	}
	taken := ledger.Settle(takes)[0]
	for _, w := range ledger.Windows {
		if w.Changed {
			s.windows[w.Start.Unix()] = w.Tally
		}
	}
	return domain.Decision{Key: "k", Cost: cost, At: at, Allowed: taken.Allowed, Policies: []domain.PolicyDecision{{
		Policy: "p", Limit: s.limit, Schedule: s.schedule, Window: window, Tally: taken.Tallies[0],
	}}}
}

// wouldAllow says what a hit would come to, and leaves everything as it is.
func (s *slider) wouldAllow(at time.Time, cost int64) bool {
	apart := &slider{s.schedule, s.limit, maps.Clone(s.windows)}
	return apart.hit(at, cost).Allowed
}

// estimate is the definition of a sliding window in fractions, told of every hit
// that was admitted. Windows are numbered from the epoch.
type estimate struct {
	length   *big.Rat // seconds
	admitted map[int64]*big.Int
}

// at is the number of the window that t lies in and the share of it that is left.
func (e *estimate) at(t time.Time) (window int64, left *big.Rat) {
	passed := new(big.Rat).Add(big.NewRat(t.Unix(), 1), big.NewRat(int64(t.Nanosecond()), int64(time.Second)))
	passed.Quo(passed, e.length)
	window = new(big.Int).Div(passed.Num(), passed.Denom()).Int64() // the floor
	return window, passed.Sub(big.NewRat(window+1, 1), passed)
}

func (e *estimate) in(window int64) *big.Int {
	if e.admitted[window] == nil {
		e.admitted[window] = new(big.Int)
	}
	return e.admitted[window]
}

// used is what of the limit is taken at t: the units of the current window and,
// rounded up, the share that is left of those in the window before.
func (e *estimate) used(t time.Time) (own, carried *big.Int) {
	window, left := e.at(t)
	left.Mul(left, new(big.Rat).SetInt(e.in(window-1)))
	rounded, rest := new(big.Int).DivMod(left.Num(), left.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		rounded.Add(rounded, big.NewInt(1))
	}
	return e.in(window), rounded
}

func (e *estimate) admits(t time.Time, cost, limit int64) bool {
	own, carried := e.used(t)
	sum := new(big.Int).Add(own, carried)
	return sum.Add(sum, big.NewInt(cost)).Cmp(big.NewInt(limit)) <= 0
}

func (e *estimate) admit(t time.Time, cost int64) {
	window, _ := e.at(t)
	e.in(window).Add(e.in(window), big.NewInt(cost))
}

// drawSlider draws a policy: small numbers, where rounding shows, as often as the largest.
func drawSlider(t *rapid.T) (*slider, *estimate) {
	seconds := rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, int64(domain.MaxWindow/time.Second))).Draw(t, "window")
	limit := rapid.OneOf(rapid.Int64Range(1, 12), rapid.Int64Range(1, domain.MaxUnits)).Draw(t, "limit")
	schedule, err := domain.Sliding(time.Duration(seconds) * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return &slider{schedule, limit, map[int64]domain.Tally{}}, &estimate{big.NewRat(seconds, 1), map[int64]*big.Int{}}
}

// drawPause draws how far the next hit is from one at t: in the same instant, a
// fraction of a window, on a boundary or a nanosecond or millisecond beside it, or
// windows later.
func (s *slider) drawPause(t *rapid.T, at time.Time) time.Duration {
	window := s.schedule.At(at)
	length := window.End.Sub(window.Start)
	boundary := window.End.Sub(at) + rapid.SampledFrom([]time.Duration{0, 0, -1, 1, -time.Millisecond, time.Millisecond}).Draw(t, "beside")
	return max(0, rapid.OneOf(
		rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, time.Second, boundary, boundary}),
		rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(length)/4).Draw(t, "part"))
		}),
		rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, 2500).Draw(t, "thousandths")) * (length / 1000)
		}),
	).Draw(t, "pause"))
}

// drawCost draws a cost that could pass, often the whole limit.
func (s *slider) drawCost(t *rapid.T) int64 {
	return rapid.OneOf(rapid.Int64Range(1, s.limit), rapid.Int64Range(1, max(1, s.limit/5)), rapid.Just(s.limit), rapid.Just(int64(1))).Draw(t, "cost")
}

// Exactly: neither a unit more, nor one less, also when the clock steps back.
func TestSlidingAdmitsExactlyWhatTheRoundedUpEstimateLeaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, model := drawSlider(t)
		at := instant(t)
		for range rapid.IntRange(1, 25).Draw(t, "hits") {
			pause := s.drawPause(t, at)
			if rapid.IntRange(0, 9).Draw(t, "back") == 0 {
				pause = -pause
			}
			at = at.Add(pause)
			cost := s.drawCost(t)
			want := model.admits(at, cost, s.limit)
			d := s.hit(at, cost)
			if d.Allowed != want {
				t.Fatalf("%d units at %s: allowed = %v, the estimate says %v", cost, at, d.Allowed, want)
			}
			if want {
				model.admit(at, cost)
			}
			own, carried := model.used(at)
			if p := d.Policies[0]; p.Used() != own.Int64() || p.Carry != carried.Int64() {
				t.Fatalf("at %s the tally is %+v, the estimate %s used and %s carried", at, p.Tally, own, carried)
			}
			left := d.Policies[0].Remaining()
			if left > 0 && !model.admits(at, left, s.limit) || left < s.limit && model.admits(at, left+1, s.limit) {
				t.Fatalf("at %s %d of %d are said to remain", at, left, s.limit)
			}
		}
	})
}

// A client that waits for Retry-After while nobody else asks is admitted, and one
// that comes a second or more before is not.
func TestSlidingRetryAfterIsTheFirstWholeSecondThatAdmits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, model := drawSlider(t)
		at := instant(t)
		for range rapid.IntRange(1, 25).Draw(t, "hits") {
			at = at.Add(s.drawPause(t, at))
			cost := s.drawCost(t)
			d := s.hit(at, cost)
			if d.Allowed {
				model.admit(at, cost)
				continue
			}
			wait := d.RetryAfter()
			if wait < 1 {
				t.Fatalf("refused with Retry-After %d", wait)
			}
			after := at.Add(time.Duration(wait) * time.Second)
			if !s.wouldAllow(after, cost) || !model.admits(after, cost, s.limit) {
				t.Fatalf("%d units refused at %s are refused again after %d s", cost, at, wait)
			}
			if wait == 1 {
				continue
			}
			for _, early := range []int64{wait - 1, rapid.Int64Range(1, wait-1).Draw(t, "early")} {
				before := at.Add(time.Duration(early) * time.Second)
				if s.wouldAllow(before, cost) || model.admits(before, cost, s.limit) {
					t.Fatalf("%d units refused at %s for %d s are admitted after %d s", cost, at, wait, early)
				}
			}
			if rapid.Bool().Draw(t, "obey") {
				at = after
				s.hit(at, cost)
				model.admit(at, cost)
			}
		}
	})
}

func TestSlidingWindowsByExample(t *testing.T) {
	for _, c := range []struct {
		name          string
		limit, before int64         // so many of the limit are used at the beginning of the first minute
		at            time.Duration // after that beginning
		left          int64         // so many are left then
		retryAfter    int64         // once they are used too
	}{
		// Case 7: a window has its first instant and not its last, and a single unit
		// weighs in, rounded up, until the window after its own has ended.
		{"a nanosecond before the boundary", 1, 1, time.Minute - 1, 0, 61},
		{"on the boundary", 1, 1, time.Minute, 0, 60},
		{"a millisecond before the next", 1, 1, 2*time.Minute - time.Millisecond, 0, 1},
		{"on the next", 1, 1, 2 * time.Minute, 1, 120},
		{"a quarter has slid out", 50, 42, 75 * time.Second, 18, 1}, // the example of Cloudflare's description
		{"a third has slid out", 10, 10, 80 * time.Second, 3, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			schedule, err := domain.Sliding(time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			s, at := &slider{schedule, c.limit, map[int64]domain.Tally{}}, newYear.Add(c.at)
			s.hit(newYear, c.before)
			if c.left > 0 && !s.hit(at, c.left).Allowed {
				t.Errorf("%d units were refused", c.left)
			}
			if d := s.hit(at, 1); d.Allowed || d.RetryAfter() != c.retryAfter {
				t.Errorf("%d units: allowed = %v, Retry-After %d, want %d", c.left+1, d.Allowed, d.RetryAfter(), c.retryAfter)
			}
		})
	}
}
