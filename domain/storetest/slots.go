package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// at is the time of all hits, the coming midnight: it begins a window of every
// length up to a day, and no store has a reason to forget what begins there.
var at = time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)

// draw is a key or the name of a policy that nobody else uses.
func draw(prefix string) string { return fmt.Sprintf("%s-%016x", prefix, rand.Uint64()) }

// slot is a slot of a one-minute window at the given time.
func slot(policy, key string, limit int64, at time.Time) domain.Slot {
	start := at.Truncate(time.Minute)
	end := start.Add(time.Minute)
	return domain.Slot{
		Policy: policy, Key: key, Schedule: "fixed 1m", Limit: limit, Window: domain.Window{Start: start, End: end}, Expires: end.Add(time.Minute),
	}
}

// sliding is a slot that weighs in num/den of what was used in the minute before.
func sliding(policy, key string, limit, num, den int64) domain.Slot {
	s := slot(policy, key, limit, at)
	s.Previous = domain.Previous{Window: slot(policy, key, limit, at.Add(-time.Minute)).Window, Num: num, Den: den}
	return s
}

func take(cost int64, slots ...domain.Slot) domain.Take { return domain.Take{Slots: slots, Cost: cost} }

// told is a take whose refusal has been decided before.
func told(cost int64, slots ...domain.Slot) domain.Take {
	return domain.Take{Slots: slots, Cost: cost, Refused: true}
}

func tally(count, refused int64) domain.Tally { return domain.Tally{Count: count, Refused: refused} }

// refusing is the tally of a slot that had no room.
func refusing(count, refused int64) domain.Tally {
	return domain.Tally{Count: count, Refused: refused, Refuses: true}
}

// mustTake takes. An error, or an answer of the wrong shape, fails the test; what
// it returns then has the right shape, so that it can be called beside others.
func mustTake(t *testing.T, counter domain.Counter, takes ...domain.Take) []domain.Taken {
	t.Helper()
	taken, err := counter.Take(context.Background(), takes)
	if err == nil && len(taken) != len(takes) {
		err = fmt.Errorf("%d takes are answered with %d results", len(takes), len(taken))
	}
	for i := range taken {
		if err == nil && len(taken[i].Tallies) != len(takes[i].Slots) {
			err = fmt.Errorf("take %d has %d slots and %d tallies", i, len(takes[i].Slots), len(taken[i].Tallies))
		}
	}
	if err == nil {
		return taken
	}
	t.Errorf("Take: %v", err)
	taken = make([]domain.Taken, len(takes))
	for i := range taken {
		taken[i].Tallies = make([]domain.Tally, len(takes[i].Slots))
	}
	return taken
}

// wantTaken compares one result.
func wantTaken(t *testing.T, got domain.Taken, allowed bool, tallies ...domain.Tally) {
	t.Helper()
	if got.Allowed != allowed {
		t.Errorf("allowed = %v, want %v", got.Allowed, allowed)
	}
	for i, want := range tallies {
		if got.Tallies[i] != want {
			t.Errorf("tally of slot %d = %+v, want %+v", i, got.Tallies[i], want)
		}
	}
}

// look is the tally that the store holds.
func look(t *testing.T, counter domain.Counter, s domain.Slot) domain.Tally {
	t.Helper()
	looked, err := counter.Look(context.Background(), []domain.Slot{s})
	if err != nil || len(looked) != 1 {
		t.Errorf("Look at one slot: %+v, %v", looked, err)
		return domain.Tally{}
	}
	return looked[0]
}

// wantLook compares what the store holds.
func wantLook(t *testing.T, counter domain.Counter, s domain.Slot, want domain.Tally) {
	t.Helper()
	if got := look(t, counter, s); got != want {
		t.Errorf("Look at (%.80q, %.80q, %s, %s) = %+v, want %+v", s.Policy, s.Key, s.Schedule, s.Window.Start.Format(time.RFC3339), got, want)
	}
}

// concurrently runs f in n goroutines at a time and waits for all.
func concurrently(n int, f func(g int)) {
	var group sync.WaitGroup
	for g := range n {
		group.Go(func() { f(g) })
	}
	group.Wait()
}

// patience is how long an answer may take that should come at once. It only passes
// where a store hangs.
const patience = 10 * time.Second

// promptly runs f and fails the test if it does not return.
func promptly(t *testing.T, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatalf("%s has not returned after %s", what, patience)
		return nil
	}
}
