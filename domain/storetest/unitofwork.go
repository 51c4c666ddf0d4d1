package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// errWork is the error of work that fails.
var errWork = errors.New("the work failed")

// hit is the work of a hit: it takes a unit and appends a call.
func hit(s domain.Slot) func(domain.Counter, domain.AuditLog) error {
	return func(counter domain.Counter, log domain.AuditLog) error {
		taken, err := counter.Take(context.Background(), []domain.Take{take(1, s)})
		if err != nil {
			return err
		}
		call := allowed(s.Policy, s.Key, "")
		call.Allowed, call.Count, call.Refused = taken[0].Allowed, taken[0].Tallies[0].Count, taken[0].Tallies[0].Refused
		return log.Append(context.Background(), []domain.Call{call})
	}
}

func testUnitOfWork(t *testing.T, store Store) {
	ctx := context.Background()
	// wantKept checks what is in the counter and in the log of a slot.
	wantKept := func(t *testing.T, s domain.Slot, n int) {
		t.Helper()
		wantLook(t, store, s, tally(int64(n), 0))
		if got := len(find(t, store, domain.CallQuery{Key: s.Key, Limit: 10})); got != n {
			t.Errorf("the log has %d calls, want %d", got, n)
		}
	}

	t.Run("keeps counter and log of work that succeeds", func(t *testing.T) {
		s := slot("p", draw("key"), 10, at)
		for n := range 3 {
			if err := store.Do(ctx, hit(s)); err != nil {
				t.Fatalf("Do: %v", err)
			}
			wantKept(t, s, n+1)
		}
	})

	t.Run("keeps nothing of work that fails, neither counter nor log", func(t *testing.T) {
		s := slot("p", draw("key"), 10, at)
		for kept := range 2 { // a window that is new, and one that is not
			err := store.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
				if err := hit(s)(counter, log); err != nil {
					return err
				}
				return fmt.Errorf("wrapped: %w", errWork)
			})
			if !errors.Is(err, errWork) {
				t.Errorf("Do returned %v, want the error of the work", err)
			}
			wantKept(t, s, kept)
			if err := store.Do(ctx, hit(s)); err != nil {
				t.Fatal(err)
			}
			wantKept(t, s, kept+1)
		}
	})

	t.Run("keeps nothing of work that panics", func(t *testing.T) {
		s := slot("p", draw("key"), 10, at)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			store.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
				if err := hit(s)(counter, log); err != nil {
					t.Error(err)
				}
				panic("the work panicked")
			})
		}()
		wantKept(t, s, 0)
		if err := promptly(t, "Do after a panic", func() error { return store.Do(ctx, hit(s)) }); err != nil {
			t.Errorf("Do after a panic: %v", err)
		}
		wantKept(t, s, 1)
	})

	t.Run("what a failing log is told is not counted either", func(t *testing.T) {
		s := slot("p", draw("key"), 10, at)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		err := store.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
			if _, err := counter.Take(ctx, []domain.Take{take(1, s)}); err != nil {
				return err
			}
			if err := log.Append(ended, []domain.Call{allowed("p", s.Key, "")}); err != nil {
				return err
			}
			return errWork // the log did not mind the context
		})
		if err == nil {
			t.Error("Do succeeded")
		}
		wantKept(t, s, 0)
	})

	t.Run("sees what it did itself", func(t *testing.T) {
		s := slot("p", draw("key"), 2, at)
		err := store.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
			for i := range 3 {
				taken, err := counter.Take(ctx, []domain.Take{take(1, s)})
				if err != nil {
					return err
				}
				if taken[0].Allowed != (i < 2) {
					t.Errorf("take %d of one unit: %+v", i+1, taken[0])
				}
			}
			looked, err := counter.Look(ctx, []domain.Slot{s})
			if err != nil {
				return err
			}
			if looked[0] != tally(3, 1) {
				t.Errorf("the work looks at %+v, it took 3 units and 1 was refused", looked[0])
			}
			if err := counter.Reset(ctx, s.Policy, s.Key); err != nil {
				return err
			}
			if looked, err = counter.Look(ctx, []domain.Slot{s}); err == nil && looked[0] != tally(0, 0) {
				t.Errorf("the work looks at %+v after its reset", looked[0])
			}
			return err
		})
		if err != nil {
			t.Errorf("Do: %v", err)
		}
		wantLook(t, store, s, tally(0, 0))
	})

	t.Run("a reset is taken back with the work", func(t *testing.T) {
		s := slot("p", draw("key"), 10, at)
		if err := store.Do(ctx, hit(s)); err != nil {
			t.Fatal(err)
		}
		err := store.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
			if err := counter.Reset(ctx, s.Policy, s.Key); err != nil {
				return err
			}
			if _, err := counter.Take(ctx, []domain.Take{take(7, s)}); err != nil {
				return err
			}
			return errWork
		})
		if !errors.Is(err, errWork) {
			t.Errorf("Do: %v", err)
		}
		wantKept(t, s, 1)
	})

	t.Run("the slices of the work are its own again", func(t *testing.T) {
		s := slot("p", draw("key"), 10, at)
		err := store.Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
			takes, calls := []domain.Take{take(1, s)}, []domain.Call{allowed("p", s.Key, "kept")}
			if _, err := counter.Take(ctx, takes); err != nil {
				return err
			}
			if err := log.Append(ctx, calls); err != nil {
				return err
			}
			takes[0].Slots[0], calls[0] = slot("p", draw("key"), 10, at), allowed("p", s.Key, "changed")
			return nil
		})
		if err != nil {
			t.Fatalf("Do: %v", err)
		}
		wantKept(t, s, 1)
		if got := paths(find(t, store, domain.CallQuery{Key: s.Key, Limit: 10})); !slices.Equal(got, []string{"kept"}) {
			t.Errorf("the log has %v", got)
		}
	})

	t.Run("a context that ends keeps all or nothing", func(t *testing.T) {
		before, within := slot("p", draw("key"), 10, at), slot("p", draw("key"), 10, at)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := promptly(t, "Do", func() error { return store.Do(ended, hit(before)) }); err == nil {
			t.Error("Do succeeded")
		}
		wantKept(t, before, 0)

		ending, cancel := context.WithCancel(ctx)
		kept := 0
		if err := promptly(t, "Do", func() error {
			return store.Do(ending, func(counter domain.Counter, log domain.AuditLog) error {
				err := hit(within)(counter, log)
				cancel()
				return err
			})
		}); err == nil {
			kept = 1 // it came too late
		}
		wantKept(t, within, kept)
	})
}

// testUnits runs units of work beside each other through two handles.
func testUnits(t *testing.T, handles ...Store) {
	ctx := context.Background()

	t.Run("units beside each other are exact, and the log adds up to the counter", func(t *testing.T) {
		const limit, each = 100, 5
		s := slot("p", draw("key"), limit, at)
		concurrently(goroutines, func(g int) {
			for i := range each {
				work := hit(s)
				if i == 2 { // one in five is taken back
					work = func(counter domain.Counter, log domain.AuditLog) error {
						return errors.Join(hit(s)(counter, log), errWork)
					}
				}
				if err := handles[g%2].Do(ctx, work); (i == 2) != errors.Is(err, errWork) || (i != 2 && err != nil) {
					t.Errorf("Do: %v", err)
				}
			}
		})
		const hits = goroutines * (each - 1)
		wantLook(t, handles[0], s, tally(hits, hits-limit))
		var admitted, count int64
		for _, call := range readAll(t, handles[1], domain.CallQuery{Key: s.Key, OldestFirst: true, Limit: 50}) {
			if count++; call.Count != count {
				t.Errorf("call %d was decided at a count of %d: calls are not in the order of commit", count, call.Count)
			}
			if call.Allowed {
				admitted++
			}
		}
		if count != hits || admitted != limit {
			t.Errorf("the log has %d calls of which %d were allowed, want %d and %d", count, admitted, hits, limit)
		}
	})

	t.Run("nobody sees what is taken back", func(t *testing.T) {
		s := slot("p", draw("key"), 10, at)
		var done atomic.Bool
		concurrently(4, func(g int) {
			if g == 0 {
				defer done.Store(true)
				for range 50 {
					if err := handles[0].Do(ctx, func(counter domain.Counter, log domain.AuditLog) error {
						return errors.Join(hit(s)(counter, log), errWork)
					}); !errors.Is(err, errWork) {
						t.Errorf("Do: %v", err)
					}
				}
				return
			}
			for !done.Load() && !t.Failed() {
				wantLook(t, handles[g%2], s, tally(0, 0))
				if found := find(t, handles[g%2], domain.CallQuery{Key: s.Key, Limit: 10}); len(found) != 0 {
					t.Errorf("the log shows %+v", found)
				}
			}
		})
	})
}
