//go:build linux || darwin || freebsd || netbsd || openbsd

package journal_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/docs/adapters/journal"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/memstore"
)

// What a crash left of a line was answered to nobody.
func TestALineThatWasCutIsWrittenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counters")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	slot := domain.Slot{Policy: "p", Key: "k", Limit: 10, Window: domain.Window{Start: start, End: start.Add(time.Minute)}, Expires: start.Add(2 * time.Minute)}
	take := func(want int64) {
		t.Helper()
		taken, err := open(t, path).Take(t.Context(), []domain.Take{{Slots: []domain.Slot{slot}, Cost: 1}})
		if err != nil || taken[0].Tallies[0].Count != want {
			t.Errorf("taken %+v, %v; want a count of %d", taken, err, want)
		}
	}
	take(1)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	take(2)
	for cut := 1; cut < len(whole); cut += 7 {
		both, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, both[:len(whole)+cut], 0o600); err != nil {
			t.Fatal(err)
		}
		take(2)
	}
	take(3)
}

// A limiter on counters and a log that are apart.
func Example() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	counter, err := journal.Open(filepath.Join(dir, "counters"))
	if err != nil {
		panic(err)
	}
	defer counter.Close()
	log := memstore.New(memstore.Options{})

	hourly, err := domain.Fixed(time.Hour)
	if err != nil {
		panic(err)
	}
	rules, err := application.NewRules(domain.Rules{Policies: []domain.Policy{{Name: "default", Limit: 2, Schedule: hourly}}})
	if err != nil {
		panic(err)
	}
	limiter, stop := application.NewLimiter(rules, application.Stores{Units: domain.Apart(counter, log), Counter: counter, Sweeper: counter}, application.Options{})
	defer stop()

	for range 3 {
		decision, err := limiter.Hit(context.Background(), domain.Hit{Key: "alice", Policies: []string{"default"}, Cost: 1})
		fmt.Println(decision.Allowed, err)
	}
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}
