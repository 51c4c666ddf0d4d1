package application

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// The watch looks at entries that may have been answered and used again meanwhile.
func TestGivingUpOnOneUseOfAnEntryDoesNotHitTheNext(t *testing.T) {
	e := newEntry(forHit, domain.Hit{}, nil, time.Time{}, nil, time.Second)
	seen := e.state.Load()
	if !e.begin() || !e.finish(domain.Taken{Allowed: true}, nil) {
		t.Fatal("the entry could not be answered")
	}
	<-e.done
	e.deadline.Store(int64(time.Hour)) // as newEntry does for the next use
	e.state.Store((seen>>stateBits+1)<<stateBits | stateWaiting)
	if e.giveUp(seen, errors.New("late")) {
		t.Error("the next use was given up for the first one's deadline")
	}
	e.expire(time.Minute, errors.New("late"))
	if !e.begin() {
		t.Error("the next use was given up before its deadline")
	}
}

func TestAnEntryThatIsAnsweredCannotBeGivenUp(t *testing.T) {
	e := newEntry(forHit, domain.Hit{}, nil, time.Time{}, nil, 0)
	late := errors.New("late")
	e.expire(time.Second, late) // the watch, before the caller could queue it
	if e.giveUp(e.state.Load(), domain.ErrOverloaded) {
		t.Error("the entry was answered twice")
	}
	if _, err := e.wait(context.Background()); !errors.Is(err, late) {
		t.Errorf("err = %v", err)
	}
}
