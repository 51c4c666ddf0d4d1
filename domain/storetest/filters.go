package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// testFilters asks for calls by what they are. That policy, key and outcome filter is
// in testAuditLog.
func testFilters(t *testing.T, handles ...domain.AuditLog) {
	store := handles[0]

	t.Run("a span has its beginning and not its end, to the millisecond", func(t *testing.T) {
		key := draw("key")
		for _, ms := range []int{-1000, -1, 0, 1, 999, 1000} {
			call := allowed("p", key, fmt.Sprint(ms))
			call.At = at.Add(time.Duration(ms) * time.Millisecond)
			mustAppend(t, store, call)
		}
		for _, c := range []struct {
			from, to time.Duration
			want     []string
		}{
			{-time.Hour, time.Hour, []string{"-1000", "-1", "0", "1", "999", "1000"}},
			{0, time.Hour, []string{"0", "1", "999", "1000"}},
			{-time.Hour, 0, []string{"-1000", "-1"}},
			{0, time.Millisecond, []string{"0"}},
			{time.Millisecond, time.Second, []string{"1", "999"}},
			{1, time.Second + 1, []string{"1", "999", "1000"}}, // a nanosecond late is late
			{-1, 1, []string{"0"}},
			{time.Millisecond - 1, time.Millisecond + 1, []string{"1"}},
			{time.Millisecond + 1, 999*time.Millisecond - 1, nil},
			{-time.Second + 1, -time.Millisecond, nil},
			{time.Millisecond, time.Millisecond, nil},
			{time.Hour, -time.Hour, nil},
		} {
			query := domain.CallQuery{Key: key, From: at.Add(c.from), To: at.Add(c.to), OldestFirst: true, Limit: 10}
			if got := paths(find(t, store, query)); !slices.Equal(got, c.want) {
				t.Errorf("from %s to %s after %s there are %v, want %v", c.from, c.to, at, got, c.want)
			}
		}
		if got := find(t, store, domain.CallQuery{Key: key, From: at, Limit: 10}); len(got) != 4 {
			t.Errorf("%d calls have no end, want 4", len(got))
		}
		if got := find(t, store, domain.CallQuery{Key: key, To: at, Limit: 10}); len(got) != 2 {
			t.Errorf("%d calls have no beginning, want 2", len(got))
		}
	})

	t.Run("a span is the same in every time zone", func(t *testing.T) {
		key := draw("key")
		zones := []*time.Location{time.UTC, time.FixedZone("+05:45", (5*60+45)*60), time.FixedZone("-08:00", -8*60*60)}
		for i, zone := range zones {
			call := allowed("p", key, fmt.Sprint(i))
			call.At = at.Add(time.Duration(i) * time.Minute).In(zone)
			mustAppend(t, store, call)
		}
		for _, zone := range zones {
			query := domain.CallQuery{Key: key, From: at.Add(time.Minute).In(zone), To: at.Add(2 * time.Minute).In(zone), Limit: 10}
			if got := paths(find(t, store, query)); !slices.Equal(got, []string{"1"}) {
				t.Errorf("the minute from %s has the calls %v, want the second", query.From, got)
			}
		}
	})

	t.Run("path and request are compared byte for byte", func(t *testing.T) {
		unique := draw("/")
		texts := []string{unique, unique + "/", unique + "/a", unique + " ", unique + "%", "%" + unique[1:], unique + "_", unique + "\u00e9", unique + "e\u0301", unique + "A", unique + "a", unique + "'\"\\"}
		for _, text := range texts {
			path, request := allowed("p", "k", text), allowed("p", "k", "/")
			request.RequestID = text
			mustAppend(t, store, path, request)
		}
		for _, text := range texts {
			if got := find(t, store, domain.CallQuery{Path: text, Limit: 10}); len(got) != 1 || got[0].Path != text {
				t.Errorf("the path %q finds %q", text, paths(got))
			}
			if got := find(t, store, domain.CallQuery{RequestID: text, Limit: 10}); len(got) != 1 || got[0].RequestID != text {
				t.Errorf("the request %q finds %+v", text, got)
			}
			if got := find(t, store, domain.CallQuery{RequestID: text, Path: text, Limit: 10}); len(got) != 0 {
				t.Errorf("path and request %q find %+v, no call has both", text, got)
			}
		}
	})

	t.Run("kinds are picked", func(t *testing.T) {
		key := draw("key")
		kinds := []domain.CallKind{domain.CallHit, domain.CallReset, domain.CallQuotaSet, domain.CallQuotaUnset, domain.CallUnchecked, domain.CallPolicySet, domain.CallPolicyRemoved}
		for _, kind := range kinds {
			mustAppend(t, store, domain.Call{Kind: kind, At: at, Policy: "p", Key: key, Hits: 1, Cost: 1, Allowed: true, Origin: domain.Origin{Path: string(kind)}})
		}
		for i, kind := range kinds {
			next := kinds[(i+1)%len(kinds)]
			if got := paths(find(t, store, domain.CallQuery{Key: key, Kinds: []domain.CallKind{kind}, Limit: 10})); !slices.Equal(got, []string{string(kind)}) {
				t.Errorf("the kind %s has %q", kind, got)
			}
			if got := find(t, store, domain.CallQuery{Key: key, Kinds: []domain.CallKind{next, kind}, Limit: 10}); len(got) != 2 {
				t.Errorf("the kinds %s and %s have %q", next, kind, paths(got))
			}
		}
		if got := find(t, store, domain.CallQuery{Key: key, Kinds: []domain.CallKind{domain.CallReset}, Outcome: domain.OutcomeAllowed, Limit: 10}); len(got) != 0 {
			t.Errorf("resets that are allowed hits: %+v", got)
		}
		if got := find(t, store, domain.CallQuery{Key: key, Kinds: []domain.CallKind{}, Limit: 10}); len(got) != len(kinds) {
			t.Errorf("no kind in particular has %q", paths(got))
		}
	})

	t.Run("a hundred calls of one millisecond come in pages of ten, each once", func(t *testing.T) {
		key := draw("key")
		var want []string
		for i := range 10 {
			calls := make([]domain.Call, 10)
			for j := range calls {
				calls[j] = allowed("p", key, fmt.Sprint(10*i+j))
				want = append(want, calls[j].Path)
			}
			mustAppend(t, store, calls...)
		}
		for _, oldestFirst := range []bool{true, false} {
			query := domain.CallQuery{Key: key, From: at, To: at.Add(time.Millisecond), OldestFirst: oldestFirst, Limit: 10}
			if got := paths(readAll(t, store, query)); !slices.Equal(got, want) {
				t.Errorf("pages, oldest first %v, show %v", oldestFirst, got)
			}
			slices.Reverse(want)
		}
	})

	t.Run("any filters agree with a plain model, in pages of any size", func(t *testing.T) {
		random, seed := seeded()
		mix := newMix()
		calls := mix.calls(random, 300)
		mustAppend(t, store, calls...)
		for range 120 {
			query := mix.query(random)
			query.OldestFirst, query.Limit = random.IntN(2) == 0, 1+random.IntN(60)
			if !mix.wantPages(t, store, calls, query) {
				t.Fatalf("seed %d", seed)
			}
		}
	})

	t.Run("filtered pages lose and repeat nothing while rows arrive", func(t *testing.T) {
		key := draw("key")
		add := func(log domain.AuditLog, path string) {
			call := allowed("p", key, path)
			call.RequestID = key
			mustAppend(t, log, call, refused("p", key, "/"))
		}
		var want []string
		for i := range 30 {
			add(store, fmt.Sprint(i))
			want = append(want, fmt.Sprint(i))
		}
		slices.Reverse(want)
		query := domain.CallQuery{Key: key, RequestID: key, From: at, Limit: 4}
		if got := paths(readAll(t, store, query, func() { add(handles[1], "new") })); !slices.Equal(got, want) {
			t.Errorf("pages back show %v, want %v", got, want)
		}
		query.OldestFirst = true
		arriving := 5
		got := readAll(t, store, query, func() {
			if arriving--; arriving >= 0 {
				add(handles[1], "new")
			}
		})
		if want := len(readAll(t, store, domain.CallQuery{Key: key, Outcome: domain.OutcomeAllowed, Limit: 1000})); len(got) != want {
			t.Errorf("pages on show %d calls, want %d", len(got), want)
		}
	})
}

// seeded is a source of numbers and the seed to repeat them with.
func seeded() (*rand.Rand, uint64) {
	seed := rand.Uint64()
	return rand.New(rand.NewPCG(seed, 1)), seed
}

// mix makes calls that have a little of everything in common, and questions about them
// that other calls in the store have no answer to.
type mix struct {
	policies, keys, paths []string
	coverage              string
}

func newMix() mix {
	m := mix{coverage: "refused"}
	for i := range 5 {
		m.keys = append(m.keys, draw(fmt.Sprint("key", i)))
		m.paths = append(m.paths, draw(fmt.Sprint("/", i)))
		if i < 2 {
			m.policies = append(m.policies, draw(fmt.Sprint("p", i)))
		}
	}
	return m
}

func pick[T any](random *rand.Rand, of []T) T { return of[random.IntN(len(of))] }

// calls are n of them, over three days and not in the order of time.
func (m *mix) calls(random *rand.Rand, n int) []domain.Call {
	calls := make([]domain.Call, n)
	for i := range calls {
		call := refused(pick(random, m.policies), pick(random, m.keys), pick(random, m.paths))
		call.Allowed = random.IntN(3) > 0
		call.Cost, call.Hits = 1+random.Int64N(9), 1+random.Int64N(3)
		call.At = m.time(random)
		call.RequestID = fmt.Sprint("r", random.IntN(10))
		call.Shadow = random.IntN(8) == 0
		switch random.IntN(12) {
		case 0:
			call.Kind, call.WindowStart = domain.CallUnchecked, time.Time{}
		case 1:
			call.Kind, call.WindowStart, call.Cost, call.Hits = domain.CallReset, time.Time{}, 0, 0
		case 2:
			call.Coverage = m.coverage
		}
		calls[i] = call
	}
	return calls
}

func (m *mix) time(random *rand.Rand) time.Time {
	return at.Add(time.Duration(random.Int64N(72*60*60*1000)) * time.Millisecond)
}

// query asks for some of the calls, never for others'.
func (m *mix) query(random *rand.Rand) (q domain.CallQuery) {
	for q.Policy == "" && q.Key == "" && q.Path == "" {
		for _, set := range []func(){
			func() { q.Policy = pick(random, m.policies) }, func() { q.Key = pick(random, m.keys) }, func() { q.Path = pick(random, m.paths) },
			func() { q.From = m.time(random) }, func() { q.To = m.time(random) }, func() { q.RequestID = fmt.Sprint("r", random.IntN(10)) },
			func() { q.Outcome = pick(random, []domain.CallOutcome{domain.OutcomeAllowed, domain.OutcomeRefused}) },
			func() {
				q.Kinds = pick(random, [][]domain.CallKind{{domain.CallHit}, {domain.CallReset, domain.CallUnchecked}, {domain.CallPolicySet}})
			},
		} {
			if random.IntN(3) == 0 {
				set()
			}
		}
	}
	return q
}

// wantPages pages through what the query asks for. The calls are all that the log has
// for the mix, in their order.
func (m *mix) wantPages(t *testing.T, log domain.AuditLog, calls []domain.Call, query domain.CallQuery) bool {
	t.Helper()
	var want []domain.Call
	for i := range calls {
		if query.Matches(&calls[i]) {
			want = append(want, calls[i])
		}
	}
	if !query.OldestFirst {
		slices.Reverse(want)
	}
	got := readAll(t, log, query)
	same := slices.EqualFunc(got, want, func(a, b domain.Call) bool {
		a.ID, a.Hash, a.Limit, a.At, a.WindowStart = b.ID, b.Hash, b.Limit, a.At.UTC(), a.WindowStart.UTC()
		b.At, b.WindowStart = b.At.UTC(), b.WindowStart.UTC()
		return a == b
	})
	if !same {
		t.Errorf("%+v finds %d calls, want these %d: %v, %v", query, len(got), len(want), brief(got), brief(want))
	}
	return same
}

// brief is at most ten of the calls, by ID and path.
func brief(calls []domain.Call) (text []string) {
	for _, call := range calls[:min(len(calls), 10)] {
		text = append(text, fmt.Sprint(call.ID, " ", call.Path))
	}
	return text
}
