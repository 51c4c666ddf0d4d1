package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// goroutines is how many hit at a time.
const goroutines = 64

// testConcurrency drives two handles from many goroutines.
func testConcurrency(t *testing.T, handles ...domain.Counter) {
	// exactly hits 1280 times and checks that as many as fit were admitted.
	exactly := func(t *testing.T, handles ...domain.Counter) {
		const limit, each = 500, 20
		s := slot("p", draw("key"), limit, at)
		var admitted atomic.Int64
		concurrently(goroutines, func(g int) {
			for range each {
				if mustTake(t, handles[g%len(handles)], take(1, s))[0].Allowed {
					admitted.Add(1)
				}
			}
		})
		if admitted.Load() != limit {
			t.Errorf("%d units were admitted, want %d", admitted.Load(), limit)
		}
		for _, handle := range handles {
			wantLook(t, handle, s, tally(goroutines*each, goroutines*each-limit))
		}
	}
	t.Run("exactly the limit is admitted", func(t *testing.T) { exactly(t, handles[0]) })
	t.Run("exactly the limit is admitted through two handles", func(t *testing.T) { exactly(t, handles...) })

	t.Run("what one handle took the other sees at once", func(t *testing.T) {
		s := slot("p", draw("key"), 3, at)
		for i := range 6 {
			taken := mustTake(t, handles[i%2], take(1, s))[0]
			if taken.Allowed != (i < 3) || taken.Tallies[0].Count != int64(i+1) {
				t.Errorf("take %d through alternating handles: %+v", i+1, taken)
			}
			wantLook(t, handles[1-i%2], s, tally(int64(i+1), max(int64(i-2), 0)))
		}
	})

	// Two slots with one limit that are always hit together stay alike.
	t.Run("slots in reversed orders are charged together", func(t *testing.T) {
		key := draw("key")
		a, b := slot("a", key, 100, at), slot("b", key, 100, at)
		var admitted atomic.Int64
		concurrently(goroutines, func(g int) {
			order := take(1, a, b)
			if g/2%2 == 1 {
				order = take(1, b, a)
			}
			for range 5 {
				taken := mustTake(t, handles[g%2], order)[0]
				if taken.Tallies[0] != taken.Tallies[1] {
					t.Errorf("slots that are hit together have the tallies %+v", taken.Tallies)
				}
				if taken.Allowed {
					admitted.Add(1)
				}
			}
		})
		if admitted.Load() != 100 {
			t.Errorf("%d takes were admitted, want 100", admitted.Load())
		}
		wantLook(t, handles[0], a, tally(goroutines*5, goroutines*5-100))
		wantLook(t, handles[1], b, tally(goroutines*5, goroutines*5-100))
	})

	t.Run("a slot with room is never charged for a refusal beside it", func(t *testing.T) {
		key := draw("key")
		narrow, wide := slot("narrow", key, 50, at), slot("wide", key, 1000, at)
		concurrently(goroutines, func(g int) {
			order := take(1, narrow, wide)
			if g/2%2 == 1 {
				order = take(1, wide, narrow)
			}
			for range 5 {
				mustTake(t, handles[g%2], order)
			}
		})
		wantLook(t, handles[0], narrow, tally(goroutines*5, goroutines*5-50))
		wantLook(t, handles[1], wide, tally(50, 0))
	})

	t.Run("batches beside each other are exact", func(t *testing.T) {
		key := draw("key")
		slots := []domain.Slot{slot("a", key, 100, at), slot("b", key, 100, at), sliding("c", key, 100, 1, 2)}
		var admitted [3]atomic.Int64
		concurrently(goroutines, func(g int) {
			takes := make([]domain.Take, 12)
			for i := range takes {
				takes[i] = take(1, slots[(g+i)%3]) // each batch in an order of its own
			}
			for i, taken := range mustTake(t, handles[g%2], takes...) {
				if taken.Allowed {
					admitted[(g+i)%3].Add(1)
				}
			}
		})
		for i, s := range slots {
			if admitted[i].Load() != 100 {
				t.Errorf("policy %s admitted %d, want 100", s.Policy, admitted[i].Load())
			}
			wantLook(t, handles[i%2], s, tally(goroutines*4, goroutines*4-100))
		}
	})

	t.Run("what was used before weighs in while it is being used", func(t *testing.T) {
		key := draw("key")
		before, now := slot("p", key, 1000, at.Add(-time.Minute)), sliding("p", key, 1000, 1, 1)
		var used atomic.Int64
		concurrently(goroutines, func(g int) {
			for range 20 {
				s := before
				if g/2%2 == 1 {
					s = now
				}
				taken := mustTake(t, handles[g%2], take(1, s))[0]
				if tally := taken.Tallies[0]; g/2%2 == 1 && taken.Allowed && tally.Used()+tally.Carry > 1000 {
					t.Errorf("admitted beyond the limit: %+v", tally)
				}
				if taken.Allowed {
					used.Add(1)
				}
			}
		})
		b, n := look(t, handles[0], before), look(t, handles[1], now)
		if b.Count != goroutines*10 || n.Count != goroutines*10 || b.Used()+n.Used() != used.Load() {
			t.Errorf("%d hits in each were %+v and %+v with %d admitted", goroutines*10, b, n, used.Load())
		}
	})
}

func testContext(t *testing.T, store domain.Counter) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()

	t.Run("nothing is taken once the context has ended", func(t *testing.T) {
		key := draw("key")
		a, b := slot("a", key, 1, at), slot("b", key, 1, at)
		if err := promptly(t, "Take", func() error { _, err := store.Take(ended, []domain.Take{take(1, a, b)}); return err }); err == nil {
			t.Error("Take succeeded")
		}
		wantLook(t, store, a, tally(0, 0))
		wantLook(t, store, b, tally(0, 0))
	})

	t.Run("looking and resetting end with the context", func(t *testing.T) {
		s := slot("p", draw("key"), 1, at)
		mustTake(t, store, take(1, s))
		if err := promptly(t, "Look", func() error { _, err := store.Look(ended, []domain.Slot{s}); return err }); err == nil {
			t.Error("Look succeeded")
		}
		if err := promptly(t, "Reset", func() error { return store.Reset(ended, s.Policy, s.Key) }); err == nil {
			t.Error("Reset succeeded")
		}
		wantLook(t, store, s, tally(1, 0))
	})

	// A context that ends on the way may or may not come too late. An answered take is
	// charged, another is charged as a whole or not at all, maybe after the error.
	t.Run("a context that ends on the way leaves nothing half done", func(t *testing.T) {
		key := draw("key")
		a, b := slot("a", key, domain.Unlimited, at), slot("b", key, domain.Unlimited, at)
		takes := []domain.Take{take(1, a, b), take(1, b), take(1, a), take(1, b, a)}
		var answered, failed int64
		for n := range int64(40) {
			ctx := &ending{Context: context.Background(), done: make(chan struct{})}
			ctx.left.Store(n)
			if _, err := store.Take(ctx, takes); err == nil {
				answered++
			} else {
				failed++
			}
			got, err := store.Look(context.Background(), []domain.Slot{a, b}) // at one moment
			if err != nil {
				t.Fatalf("Look: %v", err)
			}
			if count := got[0].Count; got[0] != got[1] || count%3 != 0 || count < 3*answered || count > 3*(answered+failed) || got[0].Refused != 0 {
				t.Errorf("3 units each of %d takes that were answered and maybe of %d that failed are %+v and %+v", answered, failed, got[0], got[1])
			}
		}
		if answered == 0 || failed == 0 {
			t.Errorf("%d takes were answered and %d failed: nothing was tried", answered, failed)
		}
	})
}

// ending is a context that ends once it was asked so many times whether it has.
type ending struct {
	context.Context
	left atomic.Int64
	once sync.Once
	done chan struct{}
}

func (e *ending) Done() <-chan struct{} { e.ask(); return e.done }

func (e *ending) Err() error { return e.ask() }

func (e *ending) ask() error {
	if e.left.Add(-1) >= 0 {
		return nil
	}
	e.once.Do(func() { close(e.done) })
	return context.Canceled
}
