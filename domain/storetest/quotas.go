package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func testQuotas(t *testing.T, store, other QuotaStore) {
	ctx := context.Background()
	change := func(t *testing.T, store QuotaStore, q domain.Quota, removed bool) {
		t.Helper()
		call := domain.Call{Kind: domain.CallQuotaSet, At: at, Policy: q.Policy, Key: q.Key, Allowed: true, Limit: q.Limit}
		if removed {
			call.Kind = domain.CallQuotaUnset
		}
		if err := store.ChangeQuota(ctx, domain.QuotaChange{Quota: q, Removed: removed}, call); err != nil {
			t.Errorf("ChangeQuota: %v", err)
		}
	}
	list := func(t *testing.T, policy, after string, limit int) []domain.Quota {
		t.Helper()
		quotas, err := store.Quotas(ctx, policy, after, limit)
		if err != nil {
			t.Fatalf("Quotas: %v", err)
		}
		return quotas
	}
	// changes are the changes of a policy beyond a revision, read in pages of two, and
	// the revision of the last change of any policy.
	changes := func(t *testing.T, policy string, after int64) (found []domain.QuotaChange, last int64) {
		t.Helper()
		for last = after; ; {
			page, err := store.QuotaChanges(ctx, last, 2)
			if err != nil {
				t.Errorf("QuotaChanges: %v", err)
				return found, last
			}
			for _, c := range page {
				if c.Revision <= last {
					t.Errorf("revision %d follows %d", c.Revision, last)
					return found, last
				}
				if last = c.Revision; c.Policy == policy {
					c.Revision = 0
					found = append(found, c)
				}
			}
			if len(page) < 2 {
				return found, last
			}
		}
	}

	t.Run("a quota is set, changed and removed", func(t *testing.T) {
		policy := draw("p")
		q := domain.Quota{Policy: policy, Key: draw("key"), Limit: 500}
		change(t, store, q, true) // what is not set
		for _, limit := range []int64{500, 0, domain.MaxUnits, domain.Unlimited} {
			q.Limit = limit
			change(t, store, q, false)
			if got := list(t, policy, "", 10); !slices.Equal(got, []domain.Quota{q}) {
				t.Errorf("after setting %d: %+v", limit, got)
			}
		}
		change(t, store, q, true)
		if got := list(t, policy, "", 10); len(got) != 0 {
			t.Errorf("after removing: %+v", got)
		}
		q.Limit = 7
		change(t, store, q, false)
		if got := list(t, policy, "", 10); !slices.Equal(got, []domain.Quota{q}) {
			t.Errorf("set again: %+v", got)
		}
	})

	t.Run("quotas are listed in the byte order of keys and paged", func(t *testing.T) {
		policy := draw("p")
		keys := []string{"b", "a", "A", "Z", "a ", "é", "a%", "z", "a_", "😀", "\u00e9\u0301", "a'\"", strings.Repeat("k", domain.MaxKeyBytes)}
		for i, key := range keys {
			change(t, store, domain.Quota{Policy: policy, Key: key, Limit: int64(i)}, false)
			change(t, store, domain.Quota{Policy: draw("p"), Key: key, Limit: 1000}, false)
		}
		change(t, store, domain.Quota{Policy: policy, Key: "b"}, true)
		want := slices.Sorted(slices.Values(keys[1:]))
		for _, size := range []int{1, 3, 100} {
			var got []string
			for after := ""; ; {
				page := list(t, policy, after, size)
				for _, q := range page {
					if q.Policy != policy || keys[q.Limit] != q.Key {
						t.Errorf("quota %+v", q)
					}
					got = append(got, q.Key)
				}
				if len(page) < size {
					break
				}
				after = got[len(got)-1]
			}
			if !slices.Equal(got, want) {
				t.Errorf("pages of %d have the keys %q, want %q", size, got, want)
			}
		}
	})

	t.Run("changes are told once each, the last one of a key, in order", func(t *testing.T) {
		policy := draw("p")
		_, begin := changes(t, policy, 0)
		a, b := domain.Quota{Policy: policy, Key: "a", Limit: 1}, domain.Quota{Policy: policy, Key: "b", Limit: domain.Unlimited}
		change(t, store, a, false)
		change(t, store, b, false)
		got, middle := changes(t, policy, begin)
		if want := []domain.QuotaChange{{Quota: a}, {Quota: b}}; !slices.Equal(got, want) {
			t.Errorf("changes = %+v, want %+v", got, want)
		}
		change(t, other, a, true) // as another process would
		got, end := changes(t, policy, middle)
		if len(got) != 1 || got[0].Key != "a" || !got[0].Removed {
			t.Errorf("changes = %+v, want the removal of a", got)
		}
		if got, last := changes(t, policy, end); len(got) != 0 || last != end {
			t.Errorf("told again: %+v", got)
		}
	})

	// Whoever makes changes also follows them, and looks at once after each of its own.
	t.Run("revisions of changes made at the same time differ, and followers miss none", func(t *testing.T) {
		const workers, each = 16, 5
		var told [workers]int
		var ends [workers]int64
		policy := draw("p")
		_, begin := changes(t, policy, 0)
		concurrently(workers, func(g int) {
			seen, last := 0, begin
			for i := range each {
				change(t, []QuotaStore{store, other}[g%2], domain.Quota{Policy: policy, Key: fmt.Sprint(g, "/", i), Limit: 1}, false)
				var got []domain.QuotaChange
				got, last = changes(t, policy, last)
				seen += len(got)
			}
			told[g], ends[g] = seen, last
		})
		for g := range workers {
			rest, _ := changes(t, policy, ends[g])
			if told[g]+len(rest) != workers*each {
				t.Errorf("follower %d was told %d changes, want %d", g, told[g]+len(rest), workers*each)
			}
		}
		if got, _ := changes(t, policy, begin); len(got) != workers*each {
			t.Errorf("%d changes are told, want %d", len(got), workers*each)
		}
	})

	t.Run("a change is in the log", func(t *testing.T) {
		q := domain.Quota{Policy: draw("p"), Key: draw("key"), Limit: 5}
		change(t, store, q, false)
		change(t, store, q, true)
		calls := find(t, store, domain.CallQuery{Key: q.Key, OldestFirst: true, Limit: 10})
		if len(calls) != 2 || calls[0].Kind != domain.CallQuotaSet || calls[0].Limit != 5 || calls[1].Kind != domain.CallQuotaUnset || calls[1].Policy != q.Policy {
			t.Errorf("calls = %+v", calls)
		}
	})

	t.Run("policies and keys are compared byte for byte", func(t *testing.T) {
		policy, key := draw("p"), draw("key")
		kept := []domain.Quota{{Policy: policy, Key: strings.ToUpper(key), Limit: 2}, {Policy: policy, Key: key, Limit: 1}, {Policy: policy, Key: key + " ", Limit: 3}}
		for _, q := range append(kept, domain.Quota{Policy: strings.ToUpper(policy), Key: key, Limit: 4}) {
			change(t, store, q, false)
		}
		if got := list(t, policy, "", 10); !slices.Equal(got, kept) {
			t.Errorf("quotas = %+v, want %+v", got, kept)
		}
		change(t, store, domain.Quota{Policy: strings.ToUpper(policy), Key: key}, true)
		if got := list(t, policy, "", 10); !slices.Equal(got, kept) {
			t.Errorf("after a removal under another policy the quotas are %+v, want %+v", got, kept)
		}
	})

	t.Run("a change ends with the context, and neither quota nor log is kept", func(t *testing.T) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		q := domain.Quota{Policy: draw("p"), Key: draw("key"), Limit: 5}
		call := domain.Call{Kind: domain.CallQuotaSet, At: at, Policy: q.Policy, Key: q.Key, Allowed: true, Limit: q.Limit}
		if err := promptly(t, "ChangeQuota", func() error { return store.ChangeQuota(ended, domain.QuotaChange{Quota: q}, call) }); err == nil {
			t.Error("ChangeQuota succeeded")
		}
		if got := list(t, q.Policy, "", 10); len(got) != 0 {
			t.Errorf("quotas = %+v", got)
		}
		wantCalls(t, find(t, store, domain.CallQuery{Key: q.Key, Limit: 10}), nil)
	})
}
