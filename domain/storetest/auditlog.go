package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// allowed is a call that leaves nothing out and says which it is by its path.
func allowed(policy, key, path string) domain.Call {
	return domain.Call{
		Kind: domain.CallHit, At: at, Policy: policy, Key: key, Cost: 1, Hits: 1, Allowed: true, Count: 1, Limit: 5, WindowStart: at, Schedule: "fixed 1m",
		Origin: domain.Origin{Method: "GET", Path: path, RequestID: "r"},
	}
}

func refused(policy, key, path string) domain.Call {
	call := allowed(policy, key, path)
	call.Allowed, call.Refused = false, 1
	return call
}

func testAuditLog(t *testing.T, store domain.AuditLog) {
	ctx := context.Background()

	t.Run("returns what was appended", func(t *testing.T) {
		key, start := draw("key"), at.Add(-time.Hour)
		calls := []domain.Call{
			{Kind: domain.CallHit, At: at.Add(123 * time.Millisecond), Policy: "p", Key: key, Cost: 2, Hits: 3, Allowed: false, Shadow: true,
				Count: 1 << 40, Refused: 1 << 39, Limit: 5, WindowStart: start, Schedule: "calendar month Asia/Tokyo",
				Origin: domain.Origin{Method: "GET", Path: "/p?\u00e9'\"%_", RequestID: "r-1", Actor: "admin \u00e9'"}},
			{Kind: domain.CallHit, At: at.Add(-1500 * time.Millisecond), Policy: "p", Key: key, Cost: 1, Hits: 1, Allowed: true, Count: 1, Limit: domain.Unlimited, WindowStart: start, Coverage: "refused sample 0.1"},
			{Kind: domain.CallHit, At: at, Policy: "q", Key: key, Cost: 1, Hits: 1, Allowed: false, Count: 1, Refused: 1, Limit: 0, WindowStart: start},
			{Kind: domain.CallHit, At: at, Policy: strings.Repeat("p", 64), Key: key, Cost: domain.MaxUnits, Hits: 1 << 33, Allowed: false,
				Count: 1<<63 - 1, Refused: 1<<63 - 2, Limit: domain.MaxUnits, WindowStart: start, Origin: domain.Origin{Path: "/" + strings.Repeat("😀", 500)}},
			{Kind: domain.CallReset, At: at, Policy: "p", Key: key, Allowed: true, ID: 7}, // the log gives IDs
			{Kind: domain.CallQuotaSet, At: at, Policy: "p", Key: key, Allowed: true, Limit: domain.Unlimited},
			{Kind: domain.CallQuotaUnset, At: at, Policy: "p", Key: key, Allowed: true},
			{Kind: domain.CallPolicySet, At: at, Policy: "p", Key: key, Allowed: true, Limit: 7, Schedule: "sliding 10s", Shadow: true, Coverage: "off"},
		}
		mustAppend(t, store, calls...)
		wantCalls(t, find(t, store, domain.CallQuery{Key: key, OldestFirst: true, Limit: 10}), calls)
		slices.Reverse(calls)
		wantCalls(t, find(t, store, domain.CallQuery{Key: key, Limit: 10}), calls)
	})

	t.Run("keeps the order within a batch and between batches", func(t *testing.T) {
		key := draw("key")
		var want []string
		for batch := range 4 {
			calls := make([]domain.Call, 150)
			for i := range calls {
				calls[i] = allowed("p", key, fmt.Sprint(batch, "/", i))
				calls[i].At = at.Add(time.Duration(-batch*1000-i) * time.Second) // not by time, but as they were appended
				want = append(want, calls[i].Path)
			}
			mustAppend(t, store, calls...)
		}
		if got := paths(find(t, store, domain.CallQuery{Key: key, OldestFirst: true, Limit: 1000})); !slices.Equal(got, want) {
			t.Errorf("the order is %v", got)
		}
		slices.Reverse(want)
		if got := paths(find(t, store, domain.CallQuery{Key: key, Limit: 1000})); !slices.Equal(got, want) {
			t.Errorf("newest first, the order is %v", got)
		}
	})

	t.Run("filters by policy, key and outcome, byte for byte", func(t *testing.T) {
		key, policy := draw("key"), draw("p")
		other := strings.ToUpper(key)
		mustAppend(t, store, allowed(policy, key, "1"), refused(policy, key, "2"), allowed("q", key, "3"), allowed(policy, other, "4"), refused("q", key+" ", "5"),
			domain.Call{Kind: domain.CallReset, At: at, Policy: policy, Key: key, Allowed: true, Origin: domain.Origin{Path: "6"}})
		for _, c := range []struct {
			query domain.CallQuery
			want  []string
		}{
			{domain.CallQuery{Key: key}, []string{"1", "2", "3", "6"}},
			{domain.CallQuery{Policy: policy}, []string{"1", "2", "4", "6"}},
			{domain.CallQuery{Policy: policy, Key: key}, []string{"1", "2", "6"}},
			{domain.CallQuery{Key: key, Outcome: domain.OutcomeAllowed}, []string{"1", "3"}}, // hits: a reset is none
			{domain.CallQuery{Key: key, Policy: policy, Outcome: domain.OutcomeRefused}, []string{"2"}},
			{domain.CallQuery{Key: other}, []string{"4"}},
			{domain.CallQuery{Key: key + " "}, []string{"5"}},
			{domain.CallQuery{Key: "%" + key[1:]}, nil},
			{domain.CallQuery{Key: draw("key")}, nil},
			{domain.CallQuery{Policy: draw("p"), Key: key}, nil},
		} {
			c.query.Limit, c.query.OldestFirst = 10, true
			if got := paths(find(t, store, c.query)); !slices.Equal(got, c.want) {
				t.Errorf("%+v finds %v, want %v", c.query, got, c.want)
			}
		}
	})

	t.Run("the slice of calls is the caller's again", func(t *testing.T) {
		key := draw("key")
		calls := []domain.Call{allowed("p", key, "1"), allowed("p", key, "2")}
		mustAppend(t, store, calls...)
		calls[0], calls[1] = allowed("p", draw("key"), "changed"), allowed("p", key, "changed")
		found := find(t, store, domain.CallQuery{Key: key, OldestFirst: true, Limit: 10})
		if got := paths(found); !slices.Equal(got, []string{"1", "2"}) {
			t.Fatalf("the log has %v", got)
		}
		found[0].Path = "changed" // and so is the answer
		if got := paths(find(t, store, domain.CallQuery{Key: key, OldestFirst: true, Limit: 10})); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("after a change of the answer the log has %v", got)
		}
	})

	t.Run("nothing to append is no error", func(t *testing.T) { mustAppend(t, store) })

	t.Run("ends with the context, and nothing is half appended", func(t *testing.T) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		key := draw("key")
		calls := []domain.Call{allowed("p", key, "1"), allowed("p", key, "2")}
		if err := promptly(t, "Append", func() error { return store.Append(ended, calls) }); err == nil {
			t.Error("Append succeeded")
		}
		if err := promptly(t, "Calls", func() error { _, err := store.Calls(ended, domain.CallQuery{Limit: 1}); return err }); err == nil {
			t.Error("Calls succeeded")
		}
		wantCalls(t, find(t, store, domain.CallQuery{Key: key, Limit: 10}), nil)
	})
}

func mustAppend(t *testing.T, log domain.AuditLog, calls ...domain.Call) {
	t.Helper()
	if err := log.Append(context.Background(), calls); err != nil {
		t.Errorf("Append: %v", err)
	}
}

// find asks the log. An error fails the test.
func find(t *testing.T, log domain.AuditLog, query domain.CallQuery) []domain.Call {
	t.Helper()
	calls, err := log.Calls(context.Background(), query)
	if err != nil {
		t.Errorf("Calls: %v", err)
	}
	if len(calls) > query.Limit {
		t.Errorf("%d calls were returned, asked for %d", len(calls), query.Limit)
	}
	return calls
}

func paths(calls []domain.Call) (paths []string) {
	for i := range calls {
		paths = append(paths, calls[i].Path)
	}
	return paths
}

// wantCalls compares all but the IDs, which must be there.
func wantCalls(t *testing.T, got, want []domain.Call) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %d calls, want %d", len(got), len(want))
		return
	}
	for i, want := range want {
		got := got[i]
		if got.ID <= 0 {
			t.Errorf("call %d has the ID %d", i, got.ID)
		}
		if !got.At.Equal(want.At) || !got.WindowStart.Equal(want.WindowStart) {
			t.Errorf("call %d is at %s in the window of %s, want %s and %s", i, got.At, got.WindowStart, want.At, want.WindowStart)
		}
		got.ID, got.At, got.WindowStart, got.Hash = want.ID, want.At, want.WindowStart, want.Hash // a hash is the log's to give
		if !want.Kind.HasLimit() {
			got.Limit = want.Limit // has no meaning there
		}
		if got != want {
			t.Errorf("call %d is\n%+v, want\n%+v", i, got, want)
		}
	}
}
