package storetest

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func testWindows(t *testing.T, store domain.Counter) {
	t.Run("windows are independent", func(t *testing.T) {
		key := draw("key")
		now, next := slot("p", key, 1, at), slot("p", key, 1, at.Add(time.Minute))
		wantTaken(t, mustTake(t, store, take(1, now))[0], true, tally(1, 0))
		wantTaken(t, mustTake(t, store, take(1, next))[0], true, tally(1, 0))
		wantTaken(t, mustTake(t, store, take(1, now))[0], false, refusing(2, 1)) // as by a clock that is behind
		wantLook(t, store, next, tally(1, 0))
		wantLook(t, store, slot("p", key, 1, at.Add(-time.Minute)), tally(0, 0))
	})

	t.Run("windows one second apart are two", func(t *testing.T) {
		one := slot("p", draw("key"), 1, at)
		one.Schedule, one.Window.End = "fixed 1s", one.Window.Start.Add(time.Second)
		next := one
		next.Window = domain.Window{Start: one.Window.End, End: one.Window.End.Add(time.Second)}
		wantTaken(t, mustTake(t, store, take(1, one))[0], true, tally(1, 0))
		wantTaken(t, mustTake(t, store, take(1, next))[0], true, tally(1, 0))
	})

	t.Run("a window is the same in every time zone", func(t *testing.T) {
		utc := slot("p", draw("key"), 1, at)
		local := utc
		zone := time.FixedZone("+05:45", (5*60+45)*60)
		local.Window = domain.Window{Start: utc.Window.Start.In(zone), End: utc.Window.End.In(zone)}
		mustTake(t, store, take(1, utc))
		wantTaken(t, mustTake(t, store, take(1, local))[0], false, refusing(2, 1))
	})

	t.Run("a changed schedule starts anew and the old one keeps its counts", func(t *testing.T) {
		s := slot("p", draw("key"), 2, at)
		mustTake(t, store, take(2, s))
		other := s
		other.Schedule, other.Window.End, other.Expires = "fixed 1h", at.Add(time.Hour), at.Add(2*time.Hour)
		wantTaken(t, mustTake(t, store, take(1, other))[0], true, tally(1, 0))
		wantLook(t, store, s, tally(2, 0))
		wantLook(t, store, other, tally(1, 0))
	})

	t.Run("windows before 1970 are windows", func(t *testing.T) {
		s := slot("p", draw("key"), 1, at)
		s.Window = domain.Window{Start: time.Unix(-60, 0).UTC(), End: time.Unix(0, 0).UTC()}
		mustTake(t, store, take(1, s))
		wantTaken(t, mustTake(t, store, take(1, s))[0], false, refusing(2, 1))
		s.Window = domain.Window{Start: time.Unix(60, 0).UTC(), End: time.Unix(120, 0).UTC()}
		wantLook(t, store, s, tally(0, 0))
	})
}

func testCarry(t *testing.T, store domain.Counter) {
	// carrying adds to a tally what weighs in of the window before.
	carrying := func(tally domain.Tally, previous, carry int64) domain.Tally {
		tally.Previous, tally.Carry = previous, carry
		return tally
	}

	t.Run("what was used before weighs in, rounded up", func(t *testing.T) {
		key := draw("key")
		before, now := slot("p", key, 10, at.Add(-time.Minute)), sliding("p", key, 10, 1, 3)
		for range 12 { // 10 used, 2 refused: only what was used is carried
			mustTake(t, store, take(1, before))
		}
		wantLook(t, store, now, carrying(tally(0, 0), 10, 4))
		wantTaken(t, mustTake(t, store, take(6, now))[0], true, carrying(tally(6, 0), 10, 4))
		wantTaken(t, mustTake(t, store, take(1, now))[0], false, carrying(refusing(7, 1), 10, 4))
		wantLook(t, store, now, carrying(tally(7, 1), 10, 4))
		wantLook(t, store, before, tally(12, 2)) // a window that is looked back at does not change
	})

	t.Run("a share of zero carries nothing, of one everything", func(t *testing.T) {
		key := draw("key")
		mustTake(t, store, take(7, slot("p", key, 10, at.Add(-time.Minute))))
		wantTaken(t, mustTake(t, store, take(10, sliding("p", key, 10, 0, 60)))[0], true, tally(10, 0))
		wantLook(t, store, sliding("p", key, 10, 60, 60), carrying(tally(10, 0), 7, 7))
		wantLook(t, store, sliding("p", key, 10, 1, math.MaxInt64), carrying(tally(10, 0), 7, 1)) // the least share is a whole unit
	})

	t.Run("a batch sees its own takes in the window before", func(t *testing.T) {
		key := draw("key")
		before, now := slot("p", key, 10, at.Add(-time.Minute)), sliding("p", key, 10, 1, 1)
		taken := mustTake(t, store, take(10, before), take(1, now))
		wantTaken(t, taken[1], false, carrying(refusing(1, 1), 10, 10))
	})

	t.Run("a window of the key under another schedule or policy is not the one before", func(t *testing.T) {
		key := draw("key")
		other := slot("p", key, 10, at.Add(-time.Minute))
		other.Schedule = "fixed 1h"
		mustTake(t, store, take(5, other), take(5, slot("q", key, 10, at.Add(-time.Minute))))
		wantLook(t, store, sliding("p", key, 10, 1, 1), tally(0, 0))
	})

	t.Run("is exact for the largest numbers", func(t *testing.T) {
		const century = int64(domain.MaxWindow) // nanoseconds: products need more than 64 bits
		for _, used := range []int64{domain.MaxUnits, domain.MaxUnits - 1, 333_333_333_333_334} {
			for _, num := range []int64{1, 2, century / 3, century/2 + 1, century - 1, century} {
				key := draw("key")
				mustTake(t, store, take(used, slot("p", key, domain.Unlimited, at.Add(-time.Minute))))
				product := new(big.Int).Mul(big.NewInt(used), big.NewInt(num))
				up := product.Add(product, big.NewInt(century-1)) // so that the division rounds up
				carry := up.Div(up, big.NewInt(century)).Int64()
				now := sliding("p", key, domain.MaxUnits, num, century)
				if room := domain.MaxUnits - carry; room > 0 {
					wantTaken(t, mustTake(t, store, take(room, now))[0], true, carrying(tally(room, 0), used, carry))
					wantTaken(t, mustTake(t, store, take(1, now))[0], false, carrying(refusing(room+1, 1), used, carry))
				} else {
					wantTaken(t, mustTake(t, store, take(1, now))[0], false, carrying(refusing(1, 1), used, carry))
				}
			}
		}
	})
}

func testNumbers(t *testing.T, store domain.Counter) {
	t.Run("counts have 64 bits", func(t *testing.T) {
		for _, n := range []int64{1 << 31, 1<<32 + 1, 1<<53 + 1, 1<<62 + 1, math.MaxInt64} {
			s := slot("p", draw("key"), domain.Unlimited, at)
			wantTaken(t, mustTake(t, store, told(n, s))[0], false, refusing(n, n))
			wantLook(t, store, s, tally(n, n))
		}
	})

	t.Run("limits are exact to the unit at the largest", func(t *testing.T) {
		s := slot("p", draw("key"), domain.MaxUnits, at)
		wantTaken(t, mustTake(t, store, take(domain.MaxUnits-1, s))[0], true, tally(domain.MaxUnits-1, 0))
		wantTaken(t, mustTake(t, store, take(2, s))[0], false, refusing(domain.MaxUnits+1, 2))
		wantTaken(t, mustTake(t, store, take(1, s))[0], true, tally(domain.MaxUnits+2, 2))
		wantTaken(t, mustTake(t, store, take(domain.MaxUnits, s))[0], false, refusing(2*domain.MaxUnits+2, domain.MaxUnits+2))
	})

	t.Run("counts stop at the largest number and do not wrap", func(t *testing.T) {
		s := slot("p", draw("key"), domain.Unlimited, at)
		wantTaken(t, mustTake(t, store, told(math.MaxInt64-1, s))[0], false, refusing(math.MaxInt64-1, math.MaxInt64-1))
		wantTaken(t, mustTake(t, store, told(math.MaxInt64-1, s))[0], false, refusing(math.MaxInt64, math.MaxInt64))
		wantLook(t, store, s, tally(math.MaxInt64, math.MaxInt64))
		mustTake(t, store, take(5, s))
		if got := look(t, store, s); got.Count != math.MaxInt64 || got.Used() != 5 {
			t.Errorf("after 5 more units the tally is %+v with %d used", got, got.Used())
		}
	})
}
