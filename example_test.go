package ratelimitlog_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/memstore"
)

func ExampleNewLimiter() {
	ctx := context.Background()
	limiter, stop, err := ratelimitlog.NewLimiter(ctx, ratelimitlog.Config{
		DSN:    "sqlite::memory:",
		Limit:  "2",
		Window: "1h",
		Now:    func() time.Time { return time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC) }, // for the sake of the output
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	for range 3 {
		decision, err := limiter.Hit(ctx, domain.Hit{Key: "alice", Policies: []string{"default"}, Cost: 1})
		switch {
		case err != nil:
			fmt.Println("could not tell:", err)
		case decision.Allowed:
			fmt.Println("allowed,", decision.Policies[0].Remaining(), "left")
		default:
			fmt.Println(decision.Err(), "Retry after", decision.RetryAfter(), "seconds.")
		}
	}
	// Output:
	// allowed, 1 left
	// allowed, 0 left
	// Rate limit of 2 requests per 3600s exceeded for key 'alice'. Retry after 3000 seconds.
}

// Adapters of one's own are passed in; here the one that keeps everything in memory.
func ExampleNewLimiterOn() {
	store := memstore.New(memstore.Options{})
	limiter, stop, err := ratelimitlog.NewLimiterOn(ratelimitlog.Stores{
		Limiter: application.Stores{Units: store, Counter: store, Sweeper: store, Quotas: store},
	}, ratelimitlog.Config{Limit: "1", Window: "1d"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	for range 2 {
		decision, err := limiter.Hit(context.Background(), domain.Hit{Key: "alice", Policies: []string{"default"}, Cost: 1})
		fmt.Println(decision.Allowed, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}
