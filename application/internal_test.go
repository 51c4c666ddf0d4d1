package application

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
)

// A breaker that trips while nobody asks finds out by itself that the store is well.
func TestABreakerThatTripsLateIsProbed(t *testing.T) {
	store, err := gormstore.Open(context.Background(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), gormstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	schedule, err := domain.Fixed(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := NewRules(domain.Rules{Policies: []domain.Policy{{Name: "p", Limit: 1000, Schedule: schedule}}})
	if err != nil {
		t.Fatal(err)
	}
	l, stop := NewLimiter(rules, Stores{Units: store, Counter: store}, Options{})
	defer stop()
	hit := domain.Hit{Key: "k", Policies: []string{"p"}, Cost: 1}
	if _, err := l.Hit(context.Background(), hit); err != nil {
		t.Fatal(err)
	}
	l.committer.breaker.failed(errors.New("late"))
	l.committer.wake() // as expire does
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err = l.Hit(context.Background(), hit); err == nil {
			return
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatal(err)
		}
	}
}
