package application_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestPruneKeepsCurrentAndPreviousWindowsByTheirOwnLength(t *testing.T) { // cases 131, 134
	clock := newClock(newYear.Add(30 * time.Second))
	l := newLimiter(t, openStore(t), clock.options(), 10, policy(t, "hour", 10, time.Hour))
	prune := func() int {
		t.Helper()
		removed, err := l.Prune(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return removed.Windows
	}
	hour := domain.Hit{Key: "k", Policies: []string{"hour"}, Cost: 1}
	mustHit(t, l, hit("k", 1))
	mustHit(t, l, hour)
	for _, step := range []struct {
		to      time.Duration
		removed int
	}{
		{30 * time.Second, 0}, {60 * time.Second, 0}, {120*time.Second - 1, 0}, {120 * time.Second, 1},
		{time.Hour, 0}, {2*time.Hour - time.Second, 0}, {2 * time.Hour, 1}, {3 * time.Hour, 0},
	} {
		clock.set(newYear.Add(step.to))
		if n := prune(); n != step.removed {
			t.Errorf("at %s a prune removed %d windows, want %d", step.to, n, step.removed)
		}
	}
}

func TestPruneWithTheClockSetBackRemovesNothingLiveOrFuture(t *testing.T) {
	clock := newClock(newYear)
	l := newLimiter(t, openStore(t), clock.options(), 3)
	wantHits(t, l, "k", yes, yes, yes, no)
	clock.set(newYear.Add(-24 * time.Hour))
	wantHits(t, l, "past", yes)
	if n, err := l.Prune(context.Background(), nil); n.Windows != 0 || err != nil {
		t.Errorf("pruned %+v, %v", n, err)
	}
	clock.set(newYear.Add(59 * time.Second))
	wantCounter(t, l, "k", 4, 1)
	if n, err := l.Prune(context.Background(), nil); n.Windows != 1 || err != nil {
		t.Errorf("pruned %+v, %v; want the window of yesterday", n, err)
	}
	wantCounter(t, l, "k", 4, 1)
}

func TestPruneWorksInBatchesShowsProgressAndCanBeInterrupted(t *testing.T) {
	clock := newClock(newYear)
	store := openStore(t)
	l := newLimiter(t, store, clock.options(), 3)
	var takes []domain.Take
	for i := range 1700 {
		takes = append(takes, domain.Take{Cost: 1, Slots: []domain.Slot{{
			Policy: "old", Key: fmt.Sprint(i), Limit: 3, Window: domain.Window{Start: newYear.Add(-time.Hour), End: newYear.Add(-time.Minute)}, Expires: newYear,
		}}})
	}
	if _, err := store.Take(context.Background(), takes); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	removed, err := l.Prune(ctx, func(application.Pruned) { cancel() })
	if !errors.Is(err, context.Canceled) || removed.Windows != 500 {
		t.Errorf("interrupted after the first batch: removed %+v, %v", removed, err)
	}
	var told []int
	removed, err = l.Prune(context.Background(), func(n application.Pruned) { told = append(told, n.Windows) })
	if removed.Windows != 1200 || err != nil || fmt.Sprint(told) != "[500 1000 1200]" {
		t.Errorf("removed %+v, %v; told %v", removed, err, told)
	}
}

func TestPruneRunsByItselfAndOutlivesAFailure(t *testing.T) { // case 136
	clock := newClock(newYear)
	s := &failingSweeps{store: openStore(t)}
	l := newLimiter(t, s, clock.options(), 3)
	wantHits(t, l, "k", yes)
	clock.advance(time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	reports := make(chan error)
	go func() {
		defer close(ended)
		l.PruneEvery(ctx, time.Millisecond, func(removed application.Pruned, err error) {
			if err == nil && removed.Windows == 0 {
				return
			}
			select {
			case reports <- err:
			case <-ctx.Done():
			}
		})
	}()
	if err := <-reports; err == nil {
		t.Error("the first prune succeeded")
	}
	if err := <-reports; err != nil {
		t.Errorf("the second prune: %v", err)
	}
	cancel()
	<-ended
}

// failingSweeps fails the first sweep.
type failingSweeps struct {
	store
	sweeps atomic.Int64
}

func (s *failingSweeps) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	if s.sweeps.Add(1) == 1 {
		return 0, errors.New("ill")
	}
	return s.store.Sweep(ctx, now, limit)
}
