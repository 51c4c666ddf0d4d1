package application_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestAReadSeesEveryRefusalAnsweredBefore(t *testing.T) {
	store := openStore(t)
	l := newLimiter(t, store, newClock(newYear).options(), 1)
	for i := int64(1); i <= 300; i++ {
		mustHit(t, l, hit("k", 1))
		if i%10 == 0 {
			wantCounter(t, l, "k", i, i-1)
		}
	}
	if allowed, refused := sums(t, store, "k"); allowed != 1 || refused != 299 {
		t.Errorf("the log has %d allowed and %d refused", allowed, refused)
	}
}

func TestAFloodOfRefusalsSharesRows(t *testing.T) {
	store := openStore(t)
	l := newLimiter(t, store, newClock(newYear).options(), 1)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range 2000 {
				mustHit(t, l, hit("k", 1))
			}
		})
	}
	group.Wait()
	wantCounter(t, l, "k", 32000, 31999)
	calls, err := store.Calls(context.Background(), domain.CallQuery{Key: "k", Limit: application.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) >= application.MaxPage {
		t.Errorf("32000 hits left %d calls or more", len(calls))
	}
}

func TestAResetClearsTheMemoryAtOnceAndIsLogged(t *testing.T) {
	store := openStore(t)
	l := newLimiter(t, store, newClock(newYear).options(), 2)
	for range 3 {
		wantHits(t, l, "k", yes, yes, no, no)
		reset := hit("k", 0)
		reset.RequestID = "r"
		for range 2 { // idempotent
			if err := l.Reset(context.Background(), reset); err != nil {
				t.Fatal(err)
			}
		}
		wantCounter(t, l, "k", 0, 0)
	}
	calls, err := store.Calls(context.Background(), domain.CallQuery{Key: "k", Limit: 100, OldestFirst: true})
	if err != nil {
		t.Fatal(err)
	}
	resets := 0
	var refused int64
	for _, call := range calls {
		if call.Kind == domain.CallReset {
			resets++
			if call.RequestID != "r" || call.Policy != "default" {
				t.Errorf("reset logged as %+v", call)
			}
			if refused != 2 && refused != 0 {
				t.Errorf("%d refused units are logged before the reset that followed them, want 2", refused)
			}
			refused = 0
		} else if !call.Allowed {
			refused += call.Cost * call.Hits
		}
	}
	if resets != 6 {
		t.Errorf("%d resets are logged, want 6", resets)
	}
}

func TestAResetThroughAnotherLimiterIsSeenWithinASecond(t *testing.T) { // case 125
	store := openStore(t)
	clock := newClock(newYear)
	a, b := newLimiter(t, store, clock.options(), 2), newLimiter(t, store, clock.options(), 2)
	wantHits(t, a, "k", yes, yes, no)
	if err := b.Reset(context.Background(), hit("k", 0)); err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Second)
	wantHits(t, a, "k", yes)

	// Under a flood it is seen with the next commit of refusals, whatever the clock says.
	wantHits(t, a, "k", yes, no)
	if err := b.Reset(context.Background(), hit("k", 0)); err != nil {
		t.Fatal(err)
	}
	mustHit(t, a, hit("k", 1))
	mustHit(t, a, hit("k", 0)) // a look makes the refusal be counted
	wantHits(t, a, "k", yes)
}

func TestTheMemoryOfRefusalsIsBounded(t *testing.T) { // case 163
	store := openStore(t)
	options := newClock(newYear).options()
	options.FullWindows = 100
	l := newLimiter(t, store, options, 1)
	wantHits(t, l, "victim", yes, no)
	var group sync.WaitGroup
	for g := range 16 {
		group.Go(func() {
			for i := range 200 {
				wantHits(t, l, fmt.Sprintf("flood-%d-%d", g, i), yes, no)
			}
		})
	}
	group.Wait()
	if n := l.FullWindows(); n > 100 {
		t.Errorf("%d windows are remembered, want at most 100", n)
	}
	wantHits(t, l, "victim", no)
	wantHits(t, l, "honest", yes)
}
