package storetest

import (
	"context"
	"slices"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func testTake(t *testing.T, store domain.Counter) {
	t.Run("admits exactly the limit and shows the attempts beyond", func(t *testing.T) {
		s := slot("p", draw("key"), 3, at)
		for i := int64(1); i <= 3; i++ {
			wantTaken(t, mustTake(t, store, take(1, s))[0], true, tally(i, 0))
		}
		wantTaken(t, mustTake(t, store, take(1, s))[0], false, refusing(4, 1))
		wantTaken(t, mustTake(t, store, take(1, s))[0], false, refusing(5, 2))
		wantLook(t, store, s, tally(5, 2))
	})

	t.Run("refused units are not charged", func(t *testing.T) {
		s := slot("p", draw("key"), 10, at)
		mustTake(t, store, take(8, s))
		wantTaken(t, mustTake(t, store, take(5, s))[0], false, refusing(13, 5))
		wantTaken(t, mustTake(t, store, take(2, s))[0], true, tally(15, 5))
		wantTaken(t, mustTake(t, store, take(1, s))[0], false, refusing(16, 6))
	})

	t.Run("is all or nothing, whatever the order of the slots", func(t *testing.T) {
		key := draw("key")
		wide, narrow := slot("wide", key, 100, at), slot("narrow", key, 1, at)
		mustTake(t, store, take(1, wide, narrow))
		wantTaken(t, mustTake(t, store, take(1, wide, narrow))[0], false, tally(1, 0), refusing(2, 1))
		wantTaken(t, mustTake(t, store, take(1, narrow, wide))[0], false, refusing(3, 2), tally(1, 0))
		wantLook(t, store, wide, tally(1, 0))
		wantLook(t, store, narrow, tally(3, 2))
	})

	t.Run("every slot that has no room counts the attempt", func(t *testing.T) {
		key := draw("key")
		slots := []domain.Slot{slot("a", key, 0, at), slot("b", key, 5, at), slot("c", key, 2, at), slot("d", key, 5, at)}
		wantTaken(t, mustTake(t, store, take(3, slots...))[0], false, refusing(3, 3), tally(0, 0), refusing(3, 3), tally(0, 0))
		slices.Reverse(slots)
		wantTaken(t, mustTake(t, store, take(3, slots...))[0], false, tally(0, 0), refusing(6, 6), tally(0, 0), refusing(6, 6))
	})

	t.Run("slots of other keys are other slots", func(t *testing.T) {
		alice, bob := slot("p", draw("alice"), 2, at), slot("p", draw("bob"), 1, at)
		taken := mustTake(t, store, take(1, alice), take(1, bob), take(1, alice), take(1, bob))
		wantTaken(t, taken[0], true, tally(1, 0))
		wantTaken(t, taken[1], true, tally(1, 0))
		wantTaken(t, taken[2], true, tally(2, 0))
		wantTaken(t, taken[3], false, refusing(2, 1))
	})

	t.Run("a refusal decided before is only counted", func(t *testing.T) {
		key := draw("key")
		s, other := slot("p", key, 100, at), slot("q", key, 100, at)
		wantTaken(t, mustTake(t, store, told(7, s))[0], false, refusing(7, 7))
		wantTaken(t, mustTake(t, store, told(2, s, other))[0], false, refusing(9, 9), refusing(2, 2))
		wantLook(t, store, s, tally(9, 9))
		wantTaken(t, mustTake(t, store, take(100, s))[0], true, tally(109, 9))
	})

	t.Run("a changed limit keeps the counts", func(t *testing.T) {
		key := draw("key")
		for range 5 {
			mustTake(t, store, take(1, slot("p", key, 3, at)))
		}
		wantTaken(t, mustTake(t, store, take(2, slot("p", key, 5, at)))[0], true, tally(7, 2))
		wantTaken(t, mustTake(t, store, take(1, slot("p", key, 5, at)))[0], false, refusing(8, 3))
		wantTaken(t, mustTake(t, store, take(1, slot("p", key, 1, at)))[0], false, refusing(9, 4)) // less than is used
	})

	t.Run("a limit of 0 refuses and no limit allows", func(t *testing.T) {
		wantTaken(t, mustTake(t, store, take(1, slot("p", draw("key"), 0, at)))[0], false, refusing(1, 1))
		wantTaken(t, mustTake(t, store, take(domain.MaxUnits, slot("p", draw("key"), domain.Unlimited, at)))[0], true, tally(domain.MaxUnits, 0))
	})
}

func testShadow(t *testing.T, store domain.Counter) {
	t.Run("a slot in shadow has no say and keeps its own truth", func(t *testing.T) {
		key := draw("key")
		wide, shadow := slot("wide", key, 3, at), slot("shadow", key, 1, at)
		shadow.Shadow = true
		wantTaken(t, mustTake(t, store, take(1, shadow, wide))[0], true, tally(1, 0), tally(1, 0))
		wantTaken(t, mustTake(t, store, take(1, shadow, wide))[0], true, refusing(2, 1), tally(2, 0))
		wantTaken(t, mustTake(t, store, take(1, wide, shadow))[0], true, tally(3, 0), refusing(3, 2))
		wantTaken(t, mustTake(t, store, take(1, wide, shadow))[0], false, refusing(4, 1), refusing(4, 3))
	})

	t.Run("a slot in shadow with room is not charged for what others refuse", func(t *testing.T) {
		key := draw("key")
		full, shadow := slot("full", key, 0, at), slot("shadow", key, 9, at)
		shadow.Shadow = true
		wantTaken(t, mustTake(t, store, take(1, shadow, full))[0], false, tally(0, 0), refusing(1, 1))
		wantTaken(t, mustTake(t, store, take(1, full, shadow))[0], false, refusing(2, 2), tally(0, 0))
	})

	t.Run("slots in shadow alone refuse nothing", func(t *testing.T) {
		key := draw("key")
		a, b := slot("a", key, 1, at), slot("b", key, 0, at)
		a.Shadow, b.Shadow = true, true
		wantTaken(t, mustTake(t, store, take(1, a, b))[0], true, tally(1, 0), refusing(1, 1))
		wantTaken(t, mustTake(t, store, take(1, a, b))[0], true, refusing(2, 1), refusing(2, 2))
	})

	t.Run("a slot that leaves the shadow starts from what was used", func(t *testing.T) {
		s := slot("p", draw("key"), 1, at)
		s.Shadow = true
		for range 4 {
			mustTake(t, store, take(1, s))
		}
		s.Shadow, s.Limit = false, 2 // one unit was used, not four
		wantTaken(t, mustTake(t, store, take(1, s))[0], true, tally(5, 3))
		wantTaken(t, mustTake(t, store, take(1, s))[0], false, refusing(6, 4))
	})
}

func testLook(t *testing.T, store domain.Counter) {
	t.Run("answers in order and changes nothing", func(t *testing.T) {
		key := draw("key")
		a, b, never := slot("a", key, 2, at), slot("b", key, 2, at), slot("never", key, 2, at)
		mustTake(t, store, take(1, a), take(2, b), take(1, b))
		for range 2 {
			for _, c := range []struct {
				slots []domain.Slot
				want  []domain.Tally
			}{
				{[]domain.Slot{a, never, b}, []domain.Tally{tally(1, 0), {}, tally(3, 1)}},
				{[]domain.Slot{b, a, b, never}, []domain.Tally{tally(3, 1), tally(1, 0), tally(3, 1), {}}},
			} {
				got, err := store.Look(context.Background(), c.slots)
				if err != nil || !slices.Equal(got, c.want) {
					t.Errorf("Look = %+v, %v, want %+v", got, err, c.want)
				}
			}
		}
		wantTaken(t, mustTake(t, store, take(1, never))[0], true, tally(1, 0))
	})

	t.Run("looks at many slots at once", func(t *testing.T) {
		slots := make([]domain.Slot, 1000)
		takes := make([]domain.Take, len(slots))
		for i := range slots {
			slots[i] = slot("p", draw("key"), domain.Unlimited, at)
			takes[i] = take(int64(i+1), slots[i])
		}
		mustTake(t, store, takes...)
		looked, err := store.Look(context.Background(), slots)
		if err != nil || len(looked) != len(slots) {
			t.Fatalf("Look at %d slots: %d tallies, %v", len(slots), len(looked), err)
		}
		for i := range looked {
			if looked[i] != tally(int64(i+1), 0) {
				t.Fatalf("tally %d is %+v, want a count of %d", i, looked[i], i+1)
			}
		}
	})
}
