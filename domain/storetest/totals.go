package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// everyBy is all that usage can be added up by.
var everyBy = []domain.UsageBy{
	domain.UsageByKey, domain.UsageByPolicy, domain.UsageByPath, domain.UsageByMinute, domain.UsageByHour, domain.UsageByDay, domain.UsageByMonth,
}

// sum is what the pieces of a group come to.
type sum struct {
	allowed, refused int64
	partial          bool
}

// spans of time, as the one who asks has them: each knows its name.
var spans = map[domain.UsageBy]string{
	domain.UsageByMinute: "2006-01-02T15:04", domain.UsageByHour: "2006-01-02T15", domain.UsageByDay: "2006-01-02", domain.UsageByMonth: "2006-01",
}

// zone is where days and months are taken from: its days are not those of UTC.
var zone = time.FixedZone("+05:45", (5*60+45)*60)

func span(by domain.UsageBy, at time.Time) string { return at.In(zone).Format(spans[by]) }

// same makes a query say that it keeps apart no more than its spans.
func same(query domain.TotalQuery) domain.TotalQuery {
	query.Same = func(a, b time.Time) bool { return span(query.By, a) == span(query.By, b) }
	return query
}

// totals puts the pieces together by the groups or spans of the query.
func totals(t *testing.T, totaler domain.Totaler, query domain.TotalQuery) map[string]sum {
	t.Helper()
	sums := map[string]sum{}
	returned := false
	err := totaler.Totals(context.Background(), query, func(piece domain.Total) {
		if returned {
			t.Error("add was called after Totals had returned")
		}
		if piece.Allowed < 0 || piece.Refused < 0 || query.By.IsTime() && piece.Group != "" {
			t.Errorf("a piece is %+v", piece)
		}
		of := piece.Group
		if query.By.IsTime() {
			of = span(query.By, piece.At)
		}
		old := sums[of]
		sums[of] = sum{saturate(old.allowed, piece.Allowed), saturate(old.refused, piece.Refused), old.partial || piece.Partial}
	})
	returned = true
	if err != nil {
		t.Errorf("Totals: %v", err)
	}
	return sums
}

func saturate(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// addUp is the model: the sums over calls, small ones.
func addUp(calls []domain.Call, query domain.TotalQuery) map[string]sum {
	sums := map[string]sum{}
	filters := domain.CallQuery{Policy: query.Policy, Key: query.Key, Path: query.Path, From: query.From, To: query.To}
	for i := range calls {
		call := &calls[i]
		if call.Kind != domain.CallHit || !filters.Matches(call) {
			continue
		}
		var of string
		switch query.By {
		case domain.UsageByKey:
			of = call.Key
		case domain.UsageByPolicy:
			of = call.Policy
		case domain.UsageByPath:
			of = call.Path
		default:
			of = span(query.By, call.At)
		}
		s := sums[of]
		if call.Allowed {
			s.allowed += call.Cost * call.Hits
		} else {
			s.refused += call.Cost * call.Hits
		}
		s.partial = s.partial || call.Coverage != ""
		sums[of] = s
	}
	return sums
}

// wantTotals compares. Groups of nothing may be there or not.
func wantTotals(t *testing.T, totaler domain.Totaler, query domain.TotalQuery, want map[string]sum) bool {
	t.Helper()
	got := totals(t, totaler, query)
	ok := true
	for of := range got {
		if _, wanted := want[of]; !wanted && got[of] != (sum{}) {
			ok = false
			t.Errorf("%s: %q has %+v, want nothing (%s)", query.By, of, got[of], asked(query))
		}
	}
	for of := range want {
		if got[of] != want[of] {
			ok = false
			t.Errorf("%s: %q has %+v, want %+v (%s)", query.By, of, got[of], want[of], asked(query))
		}
	}
	return ok
}

func asked(q domain.TotalQuery) string {
	return fmt.Sprintf("policy %q, key %q, path %q, from %s to %s", q.Policy, q.Key, q.Path, q.From.Format(time.RFC3339Nano), q.To.Format(time.RFC3339Nano))
}

// totalQuery asks for sums over some of the calls of the mix.
func (m *mix) totalQuery(q domain.CallQuery, by domain.UsageBy) domain.TotalQuery {
	query := domain.TotalQuery{Policy: q.Policy, Key: q.Key, Path: q.Path, From: q.From, To: q.To, By: by}
	if by == domain.UsageByDay || by == domain.UsageByMonth {
		return same(query)
	}
	return query
}

func testTotals(t *testing.T, store, other domain.AuditLog) {
	totaler, second := store.(domain.Totaler), other.(domain.Totaler)
	// of is the sums of a key, by policy.
	of := func(key string) domain.TotalQuery { return domain.TotalQuery{Key: key, By: domain.UsageByPolicy} }

	t.Run("sums are those of what Calls returns, by anything", func(t *testing.T) {
		random, seed := seeded()
		mix := newMix()
		mustAppend(t, store, mix.calls(random, 600)...)
		for i := range 70 {
			filters := mix.query(random)
			query := mix.totalQuery(filters, everyBy[i%len(everyBy)])
			calls := readAll(t, store, domain.CallQuery{Policy: query.Policy, Key: query.Key, Path: query.Path, From: query.From, To: query.To, Limit: 1000})
			if !wantTotals(t, totaler, query, addUp(calls, query)) {
				t.Fatalf("seed %d", seed)
			}
		}
	})

	t.Run("units are added up, and what was refused is kept apart", func(t *testing.T) {
		key := draw("key")
		many, none, shadow := allowed("p", key, "/"), refused("p", key, "/"), refused("q", key, "/")
		many.Cost, many.Hits = 3, 4
		none.Cost, none.Hits = 2, 5
		shadow.Cost, shadow.Hits, shadow.Shadow = 7, 1, true
		mustAppend(t, store, many, none, shadow, allowed("p", key, "/"))
		wantTotals(t, second, of(key), map[string]sum{"p": {allowed: 13, refused: 10}, "q": {refused: 7}})
	})

	t.Run("what is no hit is left out", func(t *testing.T) {
		key := draw("key")
		mustAppend(t, store, allowed("p", key, "/"))
		for _, kind := range []domain.CallKind{domain.CallReset, domain.CallQuotaSet, domain.CallQuotaUnset, domain.CallUnchecked, domain.CallPolicySet, domain.CallPolicyRemoved} {
			call := allowed("p", key, "/")
			call.Kind, call.Coverage, call.Hits = kind, "off", 5
			mustAppend(t, store, call)
		}
		wantTotals(t, totaler, of(key), map[string]sum{"p": {allowed: 1}})
	})

	t.Run("a sum is partial if a hit in it is of a log that lacks some", func(t *testing.T) {
		key := draw("key")
		whole, lacking := allowed("p", key, "/1"), refused("q", key, "/2")
		lacking.Coverage = "refused sample 0.5"
		mustAppend(t, store, whole, lacking, refused("q", key, "/1"))
		wantTotals(t, totaler, of(key), map[string]sum{"p": {allowed: 1}, "q": {refused: 2, partial: true}})
		wantTotals(t, totaler, domain.TotalQuery{Key: key, By: domain.UsageByPath}, map[string]sum{"/1": {allowed: 1, refused: 1}, "/2": {refused: 1, partial: true}})
		wantTotals(t, totaler, domain.TotalQuery{Key: key, Path: "/1", By: domain.UsageByKey}, map[string]sum{key: {allowed: 1, refused: 1}})
	})

	t.Run("sums stop at the largest number and do not wrap", func(t *testing.T) {
		key := draw("key")
		for range 2 {
			much, none := allowed("p", key, "/"), refused("p", key, "/")
			much.Cost, none.Cost, much.Hits, none.Hits = domain.MaxUnits, domain.MaxUnits, 1<<13, 1<<13
			mustAppend(t, store, much, none)
		}
		more := refused("q", key, "/") // a single one that does
		more.Cost, more.Hits = domain.MaxUnits, 1<<20
		mustAppend(t, store, more)
		wantTotals(t, totaler, of(key), map[string]sum{"p": {allowed: math.MaxInt64, refused: math.MaxInt64}, "q": {refused: math.MaxInt64}})
	})

	t.Run("sums have the hits of their span, to the millisecond", func(t *testing.T) {
		key := draw("key")
		for i, ms := range []int{-1, 0, 1, 59_999, 60_000, 60_001} {
			call := allowed("p", key, "/")
			call.At, call.Cost = at.Add(time.Duration(ms)*time.Millisecond), 1<<i
			mustAppend(t, store, call)
		}
		for _, c := range []struct {
			from, to time.Duration
			want     int64
		}{
			{0, time.Minute, 0b001110}, {1, time.Minute + 1, 0b011100}, {-time.Millisecond, 0, 0b000001}, {-time.Millisecond + 1, 1, 0b000010},
			{time.Millisecond, time.Minute - time.Millisecond, 0b000100}, {time.Minute, time.Hour, 0b110000}, {time.Minute + 1, time.Hour, 0b100000}, {1, 2, 0},
		} {
			query := of(key)
			query.From, query.To = at.Add(c.from).In(zone), at.Add(c.to).In(zone)
			want := map[string]sum{}
			if c.want > 0 {
				want["p"] = sum{allowed: c.want}
			}
			wantTotals(t, totaler, query, want)
		}
	})

	t.Run("minutes are kept apart, and what is the same need not be", func(t *testing.T) {
		key := draw("key")
		want := map[string]sum{}
		for i, ms := range []int{0, 59_999, 60_000, 3_599_999, 3_600_000, 86_399_999, 86_400_000} {
			call := allowed("p", key, "/")
			call.At, call.Cost = at.Add(time.Duration(ms)*time.Millisecond), 1<<i
			s := want[span(domain.UsageByMinute, call.At)]
			s.allowed += call.Cost
			want[span(domain.UsageByMinute, call.At)] = s
			mustAppend(t, store, call)
		}
		wantTotals(t, totaler, domain.TotalQuery{Key: key, By: domain.UsageByMinute}, want)
		wantTotals(t, totaler, same(domain.TotalQuery{Key: key, By: domain.UsageByMinute}), want)
		day, next := span(domain.UsageByDay, at), span(domain.UsageByDay, at.Add(24*time.Hour))
		wantTotals(t, totaler, same(domain.TotalQuery{Key: key, By: domain.UsageByDay}), map[string]sum{day: {allowed: 0b0011111}, next: {allowed: 0b1100000}})
	})

	t.Run("groups are kept apart byte for byte", func(t *testing.T) {
		unique, want := draw("p"), map[string]sum{}
		for i, text := range []string{unique, strings.ToUpper(unique), unique + " ", unique + "\u00e9", unique + "e\u0301", "%" + unique[1:], unique + "_"} {
			call := allowed(unique, text, "/")
			call.Cost, want[text] = int64(1<<i), sum{allowed: 1 << i}
			mustAppend(t, store, call)
			call.Policy, call.Key, call.Path = text, unique+"key", "/"
			mustAppend(t, store, call)
			call.Policy, call.Path = "p", text
			mustAppend(t, store, call)
		}
		wantTotals(t, totaler, domain.TotalQuery{Policy: unique, Path: "/", By: domain.UsageByKey}, with(want, unique+"key", sum{allowed: 1}))
		wantTotals(t, totaler, domain.TotalQuery{Key: unique + "key", Path: "/", By: domain.UsageByPolicy}, want)
		wantTotals(t, totaler, domain.TotalQuery{Key: unique + "key", Policy: "p", By: domain.UsageByPath}, want)
		wantTotals(t, totaler, domain.TotalQuery{Key: unique + " ", By: domain.UsageByKey}, map[string]sum{unique + " ": {allowed: 4}})
		wantTotals(t, totaler, domain.TotalQuery{Path: unique + "_", By: domain.UsageByPath}, map[string]sum{unique + "_": {allowed: 64}})
	})

	// Hits that were there before weigh so much more than those that arrive that both can
	// be told from the sum.
	t.Run("every hit that was there is in the sum once while others arrive", func(t *testing.T) {
		const before, weight = 50, 1 << 20
		key := draw("key")
		heavy, none := allowed("p", key, "/"), refused("p", key, "/")
		heavy.Cost, none.Cost = weight, weight
		mustAppend(t, store, slices.Repeat([]domain.Call{heavy, none}, before)...)
		var begun, done atomic.Int64
		concurrently(8, func(g int) {
			log, totaler := []domain.AuditLog{store, other}[g%2], []domain.Totaler{totaler, second}[g/2%2]
			for i := range 20 {
				calls := slices.Repeat([]domain.Call{allowed("p", key, "/"), refused("p", key, "/")}, 1+i%4)
				begun.Add(int64(len(calls) / 2))
				mustAppend(t, log, calls...)
				least := done.Add(int64(len(calls) / 2))
				got := totals(t, totaler, of(key))["p"]
				most := begun.Load()
				for _, units := range []int64{got.allowed, got.refused} {
					if units/weight != before || units%weight < least || units%weight > most {
						t.Errorf("the sum has %d of %d hits that were there, and of others %d, want %d to %d", units/weight, before, units%weight, least, most)
					}
				}
			}
		})
		want := before*weight + done.Load()
		wantTotals(t, totaler, of(key), map[string]sum{"p": {allowed: want, refused: want}})
	})

	t.Run("ends with the context", func(t *testing.T) {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		key := draw("key")
		mustAppend(t, store, allowed("p", key, "/"))
		if err := promptly(t, "Totals", func() error { return totaler.Totals(ended, of(key), func(domain.Total) {}) }); err == nil {
			t.Error("Totals succeeded")
		}
	})
}

// with is the sums and one more.
func with(sums map[string]sum, of string, more sum) map[string]sum {
	all := map[string]sum{of: more}
	for group, s := range sums {
		all[group] = s
	}
	return all
}
