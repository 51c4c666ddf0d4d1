package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func testAuditLog(t *testing.T, store domain.AuditLog) {
	ctx := context.Background()
	key, other := draw("key"), draw("key")
	start := at.Add(-time.Hour)
	full := domain.Call{
		Kind: domain.CallHit, At: at.Add(123 * time.Millisecond), Policy: "p", Key: key, Cost: 2, Hits: 3, Allowed: false, Shadow: true,
		Count: 1 << 40, Refused: 1 << 39, Limit: 5, WindowStart: start, Origin: domain.Origin{Method: "GET", Path: "/p?\u00e9'\"", RequestID: "r-1"},
	}
	calls := []domain.Call{
		full,
		{Kind: domain.CallHit, At: at, Policy: "p", Key: key, Cost: 1, Hits: 1, Allowed: true, Count: 1, Limit: domain.Unlimited, WindowStart: start},
		{Kind: domain.CallHit, At: at, Policy: "q", Key: key, Cost: 1, Hits: 1, Allowed: false, Count: 1, Refused: 1, Limit: 0, WindowStart: start},
		{Kind: domain.CallReset, At: at, Policy: "p", Key: key, Allowed: true},
		{Kind: domain.CallHit, At: at, Policy: "p", Key: other, Cost: 1, Hits: 1, Allowed: true, Count: 1, Limit: 5, WindowStart: start},
	}
	if err := store.Append(ctx, calls); err != nil {
		t.Fatalf("Append: %v", err)
	}
	if err := store.Append(ctx, nil); err != nil {
		t.Errorf("Append of nothing: %v", err)
	}

	t.Run("returns what was appended", func(t *testing.T) {
		got := find(t, store, domain.CallQuery{Key: key, OldestFirst: true, Limit: 10})
		for i := range got {
			if got[i].ID <= 0 || i > 0 && got[i].ID <= got[i-1].ID {
				t.Errorf("call %d has ID %d", i, got[i].ID)
			}
			got[i].ID = 0
		}
		wantCalls(t, got, calls[:4])
	})

	t.Run("filters", func(t *testing.T) {
		for _, c := range []struct {
			query domain.CallQuery
			want  []domain.Call
		}{
			{domain.CallQuery{Key: key, Policy: "q"}, calls[2:3]},
			{domain.CallQuery{Key: key, Outcome: domain.OutcomeAllowed}, calls[1:2]},
			{domain.CallQuery{Key: key, Policy: "p", Outcome: domain.OutcomeRefused}, calls[:1]},
			{domain.CallQuery{Key: draw("key")}, nil},
		} {
			c.query.Limit = 10
			got := find(t, store, c.query)
			for i := range got {
				got[i].ID = 0
			}
			wantCalls(t, got, c.want)
		}
	})

	t.Run("pages lose and repeat nothing", func(t *testing.T) {
		key := draw("key")
		for i := range 25 {
			call := calls[1]
			call.Key, call.Path = key, fmt.Sprint(i)
			if err := store.Append(ctx, []domain.Call{call}); err != nil {
				t.Fatal(err)
			}
		}
		for _, oldestFirst := range []bool{true, false} {
			for _, size := range []int{1, 7, 100} {
				var seen []string
				query := domain.CallQuery{Key: key, OldestFirst: oldestFirst, Limit: size}
				for {
					page := find(t, store, query)
					for _, call := range page {
						seen = append(seen, call.Path)
					}
					if len(page) < size {
						break
					}
					if last := page[len(page)-1].ID; oldestFirst {
						query.After = last
					} else {
						query.Before = last
					}
				}
				if len(seen) != 25 {
					t.Fatalf("pages of %d show %d of 25 calls: %v", size, len(seen), seen)
				}
				for i, path := range seen {
					want := fmt.Sprint(i)
					if !oldestFirst {
						want = fmt.Sprint(24 - i)
					}
					if path != want {
						t.Errorf("pages of %d, oldest first %v: call %d is %s, want %s", size, oldestFirst, i, path, want)
					}
				}
			}
		}
	})
}

func find(t *testing.T, log domain.AuditLog, query domain.CallQuery) []domain.Call {
	t.Helper()
	calls, err := log.Calls(context.Background(), query)
	if err != nil {
		t.Fatalf("Calls: %v", err)
	}
	return calls
}

func wantCalls(t *testing.T, got, want []domain.Call) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %d calls, want %d", len(got), len(want))
		return
	}
	for i := range want {
		if !got[i].At.Equal(want[i].At) || !got[i].WindowStart.Equal(want[i].WindowStart) {
			t.Errorf("call %d is at %s in the window of %s, want %s and %s", i, got[i].At, got[i].WindowStart, want[i].At, want[i].WindowStart)
		}
		got[i].At, got[i].WindowStart = want[i].At, want[i].WindowStart
		if want[i].Kind == domain.CallReset {
			got[i].Limit = want[i].Limit // has no meaning there
		}
		if got[i] != want[i] {
			t.Errorf("call %d is\n%+v, want\n%+v", i, got[i], want[i])
		}
	}
}

func testUnitOfWork(t *testing.T, store Store) {
	ctx := context.Background()
	s := slot("p", draw("key"), 10, at)
	call := domain.Call{Kind: domain.CallHit, At: at, Policy: "p", Key: s.Key, Cost: 1, Hits: 1, Allowed: true, Count: 1, Limit: 10, WindowStart: s.Window.Start}
	work := func(counter domain.Counter, log domain.AuditLog) error {
		if _, err := counter.Take(ctx, []domain.Take{take(1, s)}); err != nil {
			return err
		}
		return log.Append(ctx, []domain.Call{call})
	}

	t.Run("keeps nothing of work that fails", func(t *testing.T) {
		cause := errors.New("the work failed")
		err := store.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
			if err := work(counter, log); err != nil {
				return err
			}
			looked, err := counter.Look(ctx, []domain.Slot{s})
			if err != nil {
				return err
			}
			if looked[0].Count != 1 {
				t.Errorf("the work sees a count of %d of its own, want 1", looked[0].Count)
			}
			return cause
		})
		if !errors.Is(err, cause) {
			t.Errorf("Do returned %v, want the error of the work", err)
		}
		wantLook(t, store, s, domain.Tally{})
		wantCalls(t, find(t, store, domain.CallQuery{Key: s.Key, Limit: 10}), nil)
	})

	t.Run("keeps nothing of work that panics", func(t *testing.T) {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			store.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
				if err := work(counter, log); err != nil {
					t.Error(err)
				}
				panic("the work panicked")
			})
		}()
		wantLook(t, store, s, domain.Tally{})
	})

	t.Run("keeps counter and log of work that succeeds", func(t *testing.T) {
		if err := store.Do(ctx, work); err != nil {
			t.Fatalf("Do: %v", err)
		}
		wantLook(t, store, s, domain.Tally{Count: 1})
		if n := len(find(t, store, domain.CallQuery{Key: s.Key, Limit: 10})); n != 1 {
			t.Errorf("the log has %d calls, want 1", n)
		}
	})
}
