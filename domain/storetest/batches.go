package storetest

import (
	"context"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func testBatches(t *testing.T, store domain.Counter) {
	t.Run("takes of one call are decided in order", func(t *testing.T) {
		s := slot("p", draw("key"), 3, at)
		taken := mustTake(t, store, take(2, s), take(2, s), take(1, s), take(1, s))
		wantTaken(t, taken[0], true, tally(2, 0))
		wantTaken(t, taken[1], false, refusing(4, 2))
		wantTaken(t, taken[2], true, tally(5, 2))
		wantTaken(t, taken[3], false, refusing(6, 3))
		wantLook(t, store, s, tally(6, 3))
	})

	t.Run("a refused take leaves room for the next of the call", func(t *testing.T) {
		key := draw("key")
		wide, narrow := slot("wide", key, 2, at), slot("narrow", key, 0, at)
		taken := mustTake(t, store, take(2, wide, narrow), take(1, wide), told(4, wide), take(1, wide))
		wantTaken(t, taken[0], false, tally(0, 0), refusing(2, 2))
		wantTaken(t, taken[1], true, tally(1, 0))
		wantTaken(t, taken[2], false, refusing(5, 4))
		wantTaken(t, taken[3], true, tally(6, 4))
	})

	t.Run("many windows in one call", func(t *testing.T) {
		takes := make([]domain.Take, 1000)
		for i := range takes {
			takes[i] = take(1, slot("p", draw("key"), 1, at))
		}
		for _, taken := range mustTake(t, store, takes...) {
			wantTaken(t, taken, true, tally(1, 0))
		}
		for _, taken := range mustTake(t, store, takes...) {
			wantTaken(t, taken, false, refusing(2, 1))
		}
	})

	t.Run("many takes of one window in one call", func(t *testing.T) {
		s := slot("p", draw("key"), 300, at)
		takes := make([]domain.Take, 1000)
		for i := range takes {
			takes[i] = take(1, s)
		}
		for i, taken := range mustTake(t, store, takes...) {
			if taken.Allowed != (i < 300) || taken.Tallies[0].Count != int64(i+1) {
				t.Fatalf("take %d: %+v", i+1, taken)
			}
		}
		wantLook(t, store, s, tally(1000, 700))
	})

	t.Run("nothing to do is no error", func(t *testing.T) {
		mustTake(t, store)
		if looked, err := store.Look(context.Background(), nil); err != nil || len(looked) != 0 {
			t.Errorf("Look at nothing: %v, %v", looked, err)
		}
	})

	t.Run("the slice of takes is the caller's again", func(t *testing.T) {
		s := slot("p", draw("key"), 10, at)
		slots := []domain.Slot{s}
		takes := []domain.Take{{Slots: slots, Cost: 1}}
		taken := mustTake(t, store, takes...)
		slots[0], takes[0] = slot("q", draw("key"), 10, at), take(5, slot("q", draw("key"), 10, at))
		wantTaken(t, taken[0], true, tally(1, 0))
		wantLook(t, store, s, tally(1, 0))
		taken[0].Tallies[0].Count = 9 // and so is the answer
		wantLook(t, store, s, tally(1, 0))
		wantTaken(t, mustTake(t, store, take(1, s))[0], true, tally(2, 0))
	})
}
