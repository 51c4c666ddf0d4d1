package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// pruned is the time of every pruning.
var pruned = at.Add(123 * time.Millisecond)

// mostRounds is how often a store may say that there may be more to remove, before it
// is taken to say so for ever.
const mostRounds = 10_000

// pruneOnce removes once and returns how many calls went. The time and, if there is
// none, the limit are set.
func pruneOnce(t *testing.T, pruner domain.CallPruner, prune domain.Prune) (removed int, more bool) {
	t.Helper()
	if prune.At.IsZero() {
		prune.At = pruned
	}
	if prune.Limit == 0 {
		prune.Limit = 1000
	}
	removed, more, err := pruner.PruneCalls(context.Background(), prune)
	if err != nil {
		t.Errorf("PruneCalls: %v", err)
	}
	if removed < 0 || removed > prune.Limit {
		t.Errorf("%d calls were removed, at most %d were to be", removed, prune.Limit)
	}
	return removed, more && err == nil
}

// pruneAll removes until nothing is left that must go.
func pruneAll(t *testing.T, pruner domain.CallPruner, prune domain.Prune) (removed int) {
	t.Helper()
	for range mostRounds {
		n, more := pruneOnce(t, pruner, prune)
		if removed += n; !more {
			return removed
		}
	}
	t.Errorf("after %d rounds there is more to remove still", mostRounds)
	return removed
}

// whatIsGone is what the log tells of the policy, nil if nothing.
func whatIsGone(t *testing.T, pruner domain.CallPruner, policy string) (gone *domain.PrunedCalls) {
	t.Helper()
	all, err := pruner.PrunedCalls(context.Background())
	if err != nil {
		t.Errorf("PrunedCalls: %v", err)
	}
	for i := range all {
		if all[i].Policy == policy {
			if gone != nil {
				t.Errorf("the policy %s is told of twice", policy)
			}
			gone = &all[i]
		}
	}
	return gone
}

func wantGone(t *testing.T, pruner domain.CallPruner, want domain.PrunedCalls) {
	t.Helper()
	switch got := whatIsGone(t, pruner, want.Policy); {
	case got == nil:
		t.Errorf("nothing is told to be gone, want %+v", want)
	case got.Through != want.Through || got.Removed != want.Removed || !got.At.Equal(want.At):
		t.Errorf("%+v is told to be gone, want %+v", *got, want)
	}
}

func testPrune(t *testing.T, store, other domain.AuditLog) {
	pruner := store.(domain.CallPruner)
	// fill appends calls at so many milliseconds after at, in this order. The paths are the places.
	fill := func(t *testing.T, policy string, ms ...int) {
		t.Helper()
		calls := make([]domain.Call, len(ms))
		for i := range ms {
			calls[i] = allowed(policy, "k", fmt.Sprint(i))
			calls[i].At = at.Add(time.Duration(ms[i]) * time.Millisecond)
		}
		mustAppend(t, store, calls...)
	}
	left := func(t *testing.T, policy string) []domain.Call {
		t.Helper()
		return readAll(t, other, domain.CallQuery{Policy: policy, OldestFirst: true, Limit: 1000})
	}
	wantLeft := func(t *testing.T, policy string, want ...string) {
		t.Helper()
		if got := paths(left(t, policy)); !slices.Equal(got, want) {
			t.Errorf("the calls %v are left, want %v", got, want)
		}
	}

	t.Run("what was made before goes, what was made then stays", func(t *testing.T) {
		for _, c := range []struct {
			before time.Duration
			want   []string
		}{
			{-time.Hour, []string{"0", "1", "2", "3", "4"}},
			{0, []string{"2", "3", "4"}},
			{-1, []string{"2", "3", "4"}}, // a nanosecond before at, so is the millisecond of the call before
			{1, []string{"3", "4"}},
			{time.Second, []string{"4"}},
			{time.Hour, nil},
		} {
			policy := draw("p")
			fill(t, policy, -1000, -1, 0, 1, 1000)
			if n := pruneAll(t, pruner, domain.Prune{Policy: policy, Before: at.Add(c.before).In(zone)}); n != 5-len(c.want) {
				t.Errorf("%d of 5 calls are said to be removed, want %v left", n, c.want)
			}
			wantLeft(t, policy, c.want...)
		}
	})

	t.Run("so many are kept, those with the largest IDs", func(t *testing.T) {
		for most, want := range map[int64]int{0: 6, 1: 1, 4: 4, 6: 6, 7: 6, 1 << 40: 6} {
			policy := draw("p")
			fill(t, policy, 5, 4, 3, 2, 1, 0) // the times are the other way around
			pruneAll(t, pruner, domain.Prune{Policy: policy, Most: most})
			wantLeft(t, policy, []string{"0", "1", "2", "3", "4", "5"}[6-want:]...)
		}
	})

	// A clock that stepped back, or servers whose clocks differ.
	t.Run("what is younger stays, also before and behind what is old", func(t *testing.T) {
		policy := draw("p")
		fill(t, policy, -5, -4, 7, -3, 8, -2, -1)
		pruneAll(t, pruner, domain.Prune{Policy: policy, Before: at})
		kept := paths(left(t, policy))
		if !slices.Contains(kept, "2") || !slices.Contains(kept, "4") || slices.Contains(kept, "0") || slices.Contains(kept, "1") {
			t.Errorf("the calls %v are left, want 2 and 4 at least and not 0 and 1", kept)
		}
		pruneAll(t, pruner, domain.Prune{Policy: policy, Before: at.Add(time.Second)})
		wantLeft(t, policy)
	})

	// A machine whose clock was ahead, and was put right.
	t.Run("what is misdated goes with the next that is not", func(t *testing.T) {
		const ahead, minute = 400 * 24 * 3600 * 1000, 123 + 60_000 // after pruned
		for _, c := range []struct{ ms, stay []int }{
			{[]int{ahead, -2, -1, 1}, []int{3}},
			{[]int{-2, ahead + 1, ahead, -1, ahead, 1, 2}, []int{4, 5, 6}},
			{[]int{-1, ahead, 1}, []int{1, 2}},
			{[]int{-1, ahead}, []int{1}},
			{[]int{minute + 1, -1, 1}, []int{2}},
			{[]int{minute, -1, 1}, []int{0, 2}},
			{[]int{1, ahead, -1}, []int{0, 1}}, // the last was made by a clock that was behind
			{append(slices.Repeat([]int{ahead}, 30), -1), nil},
			{append(slices.Repeat([]int{ahead}, 12), 1), []int{0, 11}},
		} {
			policy := draw("p")
			fill(t, policy, c.ms...)
			removed := pruneAll(t, pruner, domain.Prune{Policy: policy, Before: at, Limit: 5})
			kept := paths(left(t, policy))
			for _, place := range c.stay {
				if !slices.Contains(kept, fmt.Sprint(place)) {
					t.Errorf("of calls at %v these are left: %v, want %v at least", c.ms, kept, c.stay)
					break
				}
			}
			if first := append(c.stay, len(c.ms))[0]; removed < first || len(kept) > len(c.ms)-first {
				t.Errorf("of calls at %v these are left: %v, want the first %d gone", c.ms, kept, first)
			}
		}
		policy := draw("p")
		fill(t, policy, ahead, ahead, 1, 2)
		pruneAll(t, pruner, domain.Prune{Policy: policy, Before: at, Most: 3})
		wantLeft(t, policy, "1", "2", "3")
	})

	t.Run("the oldest go first, at most so many, until it is said that none is left", func(t *testing.T) {
		for _, prune := range []domain.Prune{{Before: at}, {Most: 5}} {
			prune.Policy, prune.Limit = draw("p"), 8
			fill(t, prune.Policy, append(slices.Repeat([]int{-1}, 25), 1, 1, 1, 1, 1)...)
			removed, more := 0, true
			for range mostRounds {
				if !more {
					break
				}
				var n int
				n, more = pruneOnce(t, pruner, prune)
				removed += n
				if got := left(t, prune.Policy); len(got) != 30-removed || got[0].Path != fmt.Sprint(removed) {
					t.Fatalf("after %d of 30 calls were removed these are left: %v", removed, paths(got))
				}
			}
			if removed != 25 || more {
				t.Errorf("%d calls were removed, more = %v, want 25 and no more", removed, more)
			}
		}
	})

	t.Run("calls of every kind that ages go, of the policy and of no other", func(t *testing.T) {
		policy := draw("p")
		others := []string{strings.ToUpper(policy), policy + " ", policy + "2", "%" + policy[1:], "x" + policy}
		kinds := []domain.CallKind{domain.CallHit, domain.CallReset, domain.CallQuotaSet, domain.CallUnchecked, domain.CallPolicySet, domain.CallPolicyRemoved}
		for _, kind := range kinds {
			for _, policy := range append(others, policy) {
				mustAppend(t, store, domain.Call{Kind: kind, At: at, Policy: policy, Key: "k", Hits: 1, Cost: 1, Origin: domain.Origin{Path: string(kind)}})
			}
		}
		pruneAll(t, pruner, domain.Prune{Policy: policy, Before: at.Add(time.Hour)})
		wantLeft(t, policy, string(domain.CallReset), string(domain.CallQuotaSet), string(domain.CallPolicySet), string(domain.CallPolicyRemoved))
		for _, policy := range others {
			if got := len(left(t, policy)); got != len(kinds) {
				t.Errorf("of the policy %q %d calls are left, want %d", policy, got, len(kinds))
			}
		}
		mustAppend(t, store, allowed(others[0], "k", ""))
		pruneAll(t, pruner, domain.Prune{Policy: others[0], Most: 2})
		for i, policy := range others {
			if got := len(left(t, policy)); i > 0 && got != len(kinds) || i == 0 && got != 2+4 {
				t.Errorf("of the policy %q %d calls are left", policy, got)
			}
		}
	})

	t.Run("age and number both remove", func(t *testing.T) {
		policy := draw("p")
		fill(t, policy, 1, 2, -2, -1, 3, 4, 5)
		pruneAll(t, pruner, domain.Prune{Policy: policy, Before: at, Most: 5})
		wantLeft(t, policy, "4", "5", "6")
		pruneAll(t, pruner, domain.Prune{Policy: policy, Before: at, Most: 1})
		wantLeft(t, policy, "6")
		if n := pruneAll(t, pruner, domain.Prune{Policy: policy}); n != 0 {
			t.Errorf("%d calls were removed without a reason", n)
		}
	})

	t.Run("it is told what is gone", func(t *testing.T) {
		policy, never := draw("p"), draw("p")
		fill(t, policy, -4, -3, -2, -1, 1, 2)
		fill(t, never, 1)
		calls := left(t, policy)
		if len(calls) != 6 {
			t.Fatalf("%d calls, want 6", len(calls))
		}
		if gone := whatIsGone(t, pruner, policy); gone != nil {
			t.Errorf("before anything went: %+v", gone)
		}
		pruneOnce(t, pruner, domain.Prune{Policy: policy, Before: at.Add(-2 * time.Millisecond)})
		wantGone(t, pruner, domain.PrunedCalls{Policy: policy, Through: calls[1].ID, Removed: 2, At: pruned})
		pruneAll(t, pruner, domain.Prune{Policy: never, Before: at})
		if gone := whatIsGone(t, pruner, never); gone != nil {
			t.Errorf("where nothing went: %+v", gone)
		}
		later := pruned.Add(time.Hour)
		pruneAll(t, pruner, domain.Prune{Policy: policy, Most: 3, At: later.In(zone)})
		wantGone(t, other.(domain.CallPruner), domain.PrunedCalls{Policy: policy, Through: calls[2].ID, Removed: 3, At: later})
		pruneAll(t, pruner, domain.Prune{Policy: policy, Most: 3, At: later.Add(time.Hour)}) // removes nothing
		wantGone(t, pruner, domain.PrunedCalls{Policy: policy, Through: calls[2].ID, Removed: 3, At: later})
	})

	t.Run("an ID that is gone is not given again", func(t *testing.T) {
		policy := draw("p")
		fill(t, policy, 1, 2)
		first := left(t, policy)
		if len(first) != 2 {
			t.Fatalf("%d calls, want 2", len(first))
		}
		pruneAll(t, pruner, domain.Prune{Policy: policy, Before: at.Add(time.Hour)})
		wantLeft(t, policy)
		fill(t, policy, 3)
		if got := left(t, policy); len(got) != 1 || got[0].ID <= first[1].ID {
			t.Errorf("after %+v were removed there is %+v", first, got)
		}
	})

	t.Run("pages go over what is gone", func(t *testing.T) {
		gone, key := draw("p"), draw("key")
		for i := range 10 {
			mustAppend(t, store, allowed(gone, key, ""), allowed("p", key, fmt.Sprint(i)), allowed(gone, key, ""))
		}
		all := find(t, store, domain.CallQuery{Key: key, OldestFirst: true, Limit: 100})
		if len(all) != 30 {
			t.Fatalf("%d calls, want 30", len(all))
		}
		pruneAll(t, pruner, domain.Prune{Policy: gone, Before: at.Add(time.Hour)})
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprint(i))
		}
		for _, size := range []int{1, 3, 10} {
			if got := paths(readAll(t, store, domain.CallQuery{Key: key, OldestFirst: true, Limit: size})); !slices.Equal(got, want) {
				t.Errorf("pages of %d show %v", size, got)
			}
		}
		for i, call := range all { // the bounds are of calls that are there and that are not
			before, after := (i+1)/3, (i+2)/3
			if got := paths(find(t, store, domain.CallQuery{Key: key, Before: call.ID, OldestFirst: true, Limit: 100})); !slices.Equal(got, want[:min(before, 10)]) {
				t.Errorf("before place %d there are %v, want %v", i, got, want[:before])
			}
			if got := paths(find(t, store, domain.CallQuery{Key: key, After: call.ID, OldestFirst: true, Limit: 100})); !slices.Equal(got, want[after:]) {
				t.Errorf("after place %d there are %v, want %v", i, got, want[after:])
			}
		}
	})

	t.Run("beside running appends nothing is lost that must stay", func(t *testing.T) {
		const writers, each = 6, 20
		policy, beside := draw("p"), draw("p")
		counter, counts := store.(domain.Counter)
		s := slot("p", draw("key"), domain.Unlimited, at)
		var appending, prunes atomic.Int64
		appending.Store(writers)
		concurrently(writers+2, func(g int) {
			if g >= writers {
				pruner := []domain.CallPruner{pruner, other.(domain.CallPruner)}[g%2]
				for appending.Load() > 0 && !t.Failed() {
					pruneOnce(t, pruner, domain.Prune{Policy: policy, Before: at, Limit: 7})
					prunes.Add(1)
				}
				return
			}
			defer appending.Add(-1)
			for i := range each {
				for prunes.Load() < int64(i) && !t.Failed() { // they shall come between
					time.Sleep(50 * time.Microsecond)
				}
				old, young, neighbour := refused(policy, "k", "old"), allowed(policy, "k", fmt.Sprint(g, " ", i)), allowed(beside, "k", "/")
				old.At, neighbour.At = at.Add(-time.Millisecond), at.Add(-time.Millisecond)
				mustAppend(t, []domain.AuditLog{store, other}[g%2], old, young, neighbour)
				if counts {
					mustTake(t, counter, take(1, s))
				}
			}
		})
		pruneAll(t, pruner, domain.Prune{Policy: policy, Before: at})
		var kept, old int
		for _, call := range left(t, policy) {
			if kept++; call.Path == "old" {
				old, kept = old+1, kept-1
			}
		}
		if kept != writers*each || len(left(t, beside)) != writers*each {
			t.Errorf("%d and %d calls are left, want %d of each", kept, len(left(t, beside)), writers*each)
		}
		if gone := whatIsGone(t, pruner, policy); gone == nil || gone.Removed+int64(old) != writers*each {
			t.Errorf("%d old calls are left of %d, and gone is %+v", old, writers*each, gone)
		}
		if counts {
			wantLook(t, counter, s, tally(writers*each, 0))
		}
	})

	t.Run("ends with the context, and removes nothing", func(t *testing.T) {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		policy := draw("p")
		fill(t, policy, -1)
		if err := promptly(t, "PruneCalls", func() error {
			_, _, err := pruner.PruneCalls(ended, domain.Prune{Policy: policy, At: pruned, Before: at, Limit: 10})
			return err
		}); err == nil {
			t.Error("PruneCalls succeeded")
		}
		if err := promptly(t, "PrunedCalls", func() error { _, err := pruner.PrunedCalls(ended); return err }); err == nil {
			t.Error("PrunedCalls succeeded")
		}
		wantLeft(t, policy, "0")
	})
}
