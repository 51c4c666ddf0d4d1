package redisstore_test

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// units are numbers as they come, and those where arithmetic goes wrong.
func units(least int64) *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64Range(least, 20),
		rapid.Int64Range(least, domain.MaxUnits),
		rapid.Int64Range(least, math.MaxInt64),
		rapid.Custom(func(t *rapid.T) int64 {
			near := rapid.SampledFrom([]int64{1e7, 1e14, 1e15, 1 << 53, math.MaxInt64 - 9, domain.MaxUnits}).Draw(t, "near")
			return max(near+rapid.Int64Range(-9, 9).Draw(t, "off"), least)
		}),
	)
}

// Whatever is taken, the store holds and answers what a ledger would.
func TestTheScriptDecidesAsTheLedgerDoes(t *testing.T) {
	n := newNamespace(t)
	store := n.open(t)
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.StringN(1, 3, 10).Draw(t, "key")
		salt := time.Now().UnixNano() + rand.Int64N(1e6) // repeated cases begin anew
		held := map[domain.WindowID]domain.Tally{}
		slots := rapid.Custom(func(t *rapid.T) domain.Slot {
			window := func(i int64) domain.Window {
				start := newYear.Add(time.Duration(i) * time.Minute)
				return domain.Window{Start: start, End: start.Add(time.Minute)}
			}
			i := rapid.Int64Range(0, 1).Draw(t, "window")
			slot := domain.Slot{
				Policy:   rapid.SampledFrom([]string{"a", "b"}).Draw(t, "policy"),
				Schedule: rapid.SampledFrom([]string{"fixed 1m", "sliding 1m"}).Draw(t, "schedule"),
				Window:   window(i), Expires: window(i + 1).End,
				Limit:  rapid.OneOf(units(0), rapid.Just[int64](domain.Unlimited)).Draw(t, "limit"),
				Shadow: rapid.IntRange(0, 3).Draw(t, "shadow") == 0,
			}
			if slot.Schedule == "sliding 1m" {
				den := rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, math.MaxInt64), rapid.Just(int64(domain.MaxWindow))).Draw(t, "den")
				num := rapid.OneOf(rapid.Int64Range(0, den), rapid.Int64Range(max(den-9, 0), den)).Draw(t, "num")
				slot.Previous = domain.Previous{Window: window(i - 1), Num: num, Den: den}
			}
			return slot
		})
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			takes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) domain.Take {
				key := prefix + string(rapid.RuneFrom([]rune("{}")).Draw(t, "tail")) + time.Unix(0, salt).String()
				take := domain.Take{Cost: rapid.OneOf(units(1), units(1), rapid.Int64Range(math.MaxInt64-99, math.MaxInt64)).Draw(t, "cost"), Refused: rapid.IntRange(0, 4).Draw(t, "refused") == 0}
				take.Slots = rapid.SliceOfNDistinct(slots, 1, 3, func(s domain.Slot) domain.WindowID { return s.ID() }).Draw(t, "slots")
				for i := range take.Slots {
					take.Slots[i].Key = key
				}
				return take
			}), 1, 16).Draw(t, "takes")

			ledger := domain.NewLedger(takes)
			id := func(w *domain.LedgerWindow) domain.WindowID {
				return domain.WindowID{Policy: w.Policy, Key: w.Key, Schedule: w.Schedule, Start: w.Start.Unix()}
			}
			for i := range ledger.Windows {
				ledger.Windows[i].Tally = held[id(&ledger.Windows[i])]
			}
			want := ledger.Settle(takes)
			for i := range ledger.Windows {
				held[id(&ledger.Windows[i])] = ledger.Windows[i].Tally
			}

			got, err := store.Take(context.Background(), takes)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if got[i].Allowed != want[i].Allowed || !slices.Equal(got[i].Tallies, want[i].Tallies) {
					t.Fatalf("take %d came to %+v, want %+v", i, got[i], want[i])
				}
			}
		}
		for id, want := range held {
			slot := domain.Slot{Policy: id.Policy, Key: id.Key, Schedule: id.Schedule, Window: domain.Window{Start: time.Unix(id.Start, 0)}}
			looked, err := store.Look(context.Background(), []domain.Slot{slot})
			if err != nil {
				t.Fatal(err)
			}
			if looked[0] != want {
				t.Fatalf("window %+v holds %+v, want %+v", id, looked[0], want)
			}
		}
	})
}

// At the last unit that fits beside a carry, and one beyond, no rounding shows.
func TestTheLastUnitBesideACarryIsExact(t *testing.T) {
	n := newNamespace(t)
	store := n.open(t)
	rapid.Check(t, func(t *rapid.T) {
		den := rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, math.MaxInt64), rapid.Just(int64(domain.MaxWindow))).Draw(t, "den")
		num := rapid.OneOf(rapid.Int64Range(1, den), rapid.Int64Range(max(den-9, 1), den)).Draw(t, "num")
		before := units(1).Draw(t, "before")
		cost := rapid.Int64Range(1, domain.MaxUnits).Draw(t, "cost")

		carry := new(big.Int).Mul(big.NewInt(before), big.NewInt(num))
		carry.Add(carry, big.NewInt(den-1)).Div(carry, big.NewInt(den))
		limit := new(big.Int).Add(carry, big.NewInt(cost))
		if !limit.IsInt64() || limit.Int64() == domain.Unlimited {
			t.Skip("no limit is so large")
		}
		key := time.Unix(0, time.Now().UnixNano()+rand.Int64N(1e6)).String()
		last := domain.Slot{
			Policy: "p", Key: key, Schedule: "sliding 1m", Limit: domain.Unlimited, Expires: newYear.Add(time.Minute),
			Window: domain.Window{Start: newYear.Add(-time.Minute), End: newYear},
		}
		now := last
		now.Window, now.Limit = domain.Window{Start: newYear, End: newYear.Add(time.Minute)}, limit.Int64()-1
		now.Previous = domain.Previous{Window: last.Window, Num: num, Den: den}
		fits := now
		fits.Limit++
		taken, err := store.Take(context.Background(), []domain.Take{
			{Slots: []domain.Slot{last}, Cost: before}, {Slots: []domain.Slot{now}, Cost: cost}, {Slots: []domain.Slot{fits}, Cost: cost},
		})
		if err != nil {
			t.Fatal(err)
		}
		if taken[1].Allowed || !taken[2].Allowed {
			t.Fatalf("%d units beside %d·%d/%d: within %d allowed = %v, within %d allowed = %v",
				cost, before, num, den, now.Limit, taken[1].Allowed, fits.Limit, taken[2].Allowed)
		}
	})
}
