package domain_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nene2-ft/ratelimitlog/domain"
)

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func slot(policy string, limit int64) domain.Slot {
	return domain.Slot{Policy: policy, Key: "k", Limit: limit, Window: domain.Window{Start: newYear, End: newYear.Add(time.Minute)}}
}

// Any interleaving of hits, in batches of any size, admits exactly what a counter
// that is told one hit after the other would: all or nothing, never beyond a limit,
// never less than fits.
func TestAnyInterleavingAdmitsExactlyTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policies := []string{"a", "b", "c"}
		limits := rapid.SliceOfN(rapid.Int64Range(0, 20), 3, 3).Draw(t, "limits")
		type row struct{ count, refused int64 }
		stored, model := map[string]domain.Tally{}, map[string]row{}
		for range rapid.IntRange(1, 5).Draw(t, "batches") {
			takes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) domain.Take {
				take := domain.Take{Cost: rapid.Int64Range(1, 7).Draw(t, "cost")}
				for _, i := range rapid.Permutation([]int{0, 1, 2}).Draw(t, "order")[:rapid.IntRange(1, 3).Draw(t, "slots")] {
					take.Slots = append(take.Slots, slot(policies[i], limits[i]))
				}
				return take
			}), 1, 10).Draw(t, "takes")

			ledger := domain.NewLedger(takes)
			for i := range ledger.Windows {
				ledger.Windows[i].Tally = stored[ledger.Windows[i].Policy]
			}
			taken := ledger.Settle(takes)
			for _, w := range ledger.Windows {
				if w.Changed {
					stored[w.Policy] = w.Tally
				}
			}

			for i, take := range takes {
				allowed := true
				for _, s := range take.Slots {
					allowed = allowed && model[s.Policy].count-model[s.Policy].refused+take.Cost <= s.Limit
				}
				for _, s := range take.Slots {
					r := model[s.Policy]
					if full := r.count-r.refused+take.Cost > s.Limit; full {
						model[s.Policy] = row{r.count + take.Cost, r.refused + take.Cost}
					} else if allowed {
						model[s.Policy] = row{r.count + take.Cost, r.refused}
					}
				}
				if taken[i].Allowed != allowed {
					t.Fatalf("take %d of cost %d on %d slots: allowed = %v", i, take.Cost, len(take.Slots), taken[i].Allowed)
				}
			}
			for i, policy := range policies {
				want, got := model[policy], stored[policy]
				if got.Count != want.count || got.Refused != want.refused || got.Used() > limits[i] {
					t.Fatalf("policy %s with limit %d has %+v, want %+v", policy, limits[i], got, want)
				}
			}
		}
	})
}

func TestLedgerMarksOnlyWhatChanged(t *testing.T) {
	takes := []domain.Take{{Cost: 1, Slots: []domain.Slot{slot("wide", 10), slot("full", 0)}}}
	ledger := domain.NewLedger(takes)
	ledger.Settle(takes)
	if len(ledger.Windows) != 2 || ledger.Windows[0].Changed || !ledger.Windows[1].Changed {
		t.Errorf("windows = %+v", ledger.Windows)
	}
}

func TestCarryIsRoundedUpInIntegers(t *testing.T) {
	for _, c := range []struct{ used, num, den, want int64 }{
		{42, 45, 60, 32}, // 31.5: the example of Cloudflare's description, rounded up
		{0, 1, 2, 0}, {10, 0, 60, 0}, {-5, 1, 2, 0},
		{1, 1, math.MaxInt64, 1}, {10, 1, 3, 4}, {9, 1, 3, 3}, {7, 5, 5, 7}, {7, 9, 5, 7},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64 - 1},
	} {
		if got := (domain.Previous{Num: c.num, Den: c.den}).Carry(c.used); got != c.want {
			t.Errorf("%d/%d of %d = %d, want %d", c.num, c.den, c.used, got, c.want)
		}
	}
}

func TestRoomNeverOverflowsNorFallsBelowZero(t *testing.T) {
	for _, c := range []struct {
		tally       domain.Tally
		limit, want int64
	}{
		{domain.Tally{}, 3, 3},
		{domain.Tally{Count: 50, Refused: 40}, 10, 0},
		{domain.Tally{Count: 50, Refused: 40}, 20, 10},
		{domain.Tally{Count: 4}, 3, 0},
		{domain.Tally{Count: 2, Carry: 2}, 3, 0},
		{domain.Tally{Count: 1, Carry: 1}, 3, 1},
		{domain.Tally{Count: math.MaxInt64, Carry: math.MaxInt64}, 0, 0},
		{domain.Tally{Carry: math.MaxInt64}, domain.MaxUnits, 0},
		{domain.Tally{Count: math.MaxInt64}, domain.Unlimited, domain.Unlimited},
	} {
		if got := c.tally.Room(c.limit); got != c.want {
			t.Errorf("%+v within %d has room %d, want %d", c.tally, c.limit, got, c.want)
		}
		if c.tally.Fits(domain.MaxUnits, c.limit) != (c.want >= domain.MaxUnits) {
			t.Errorf("%+v within %d: the largest cost fits = %v", c.tally, c.limit, c.tally.Fits(domain.MaxUnits, c.limit))
		}
	}
}

// However many units were refused, no more than the limit are admitted.
func TestALimitHoldsAlsoWhereTheCountCannotGrow(t *testing.T) {
	const limit = 100
	takes := []domain.Take{{Cost: 30, Slots: []domain.Slot{slot("p", limit)}}}
	var admitted int64
	stored := domain.Tally{Count: math.MaxInt64 - 10, Refused: math.MaxInt64 - 10}
	for range 10 {
		ledger := domain.NewLedger(takes)
		ledger.Windows[0].Tally = stored
		if ledger.Settle(takes)[0].Allowed {
			admitted += 30
		}
		stored = ledger.Windows[0].Tally
	}
	if admitted != 90 || stored.Used() != 90 {
		t.Errorf("%d units were admitted of %d, %d are used", admitted, limit, stored.Used())
	}
}

func TestAnUnlimitedCountStopsAtTheLargestNumber(t *testing.T) {
	takes := []domain.Take{{Cost: domain.MaxUnits, Slots: []domain.Slot{slot("p", domain.Unlimited)}}}
	ledger := domain.NewLedger(takes)
	ledger.Windows[0].Tally.Count = math.MaxInt64 - 1
	if taken := ledger.Settle(takes); !taken[0].Allowed || taken[0].Tallies[0].Count != math.MaxInt64 {
		t.Errorf("taken = %+v", taken[0])
	}
}
