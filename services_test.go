package ratelimitlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// need skips a test whose service is not there, or fails it where services are
// required (RATELIMITLOG_REQUIRE_SERVICES, as in CI).
func need(t testing.TB, service string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("RATELIMITLOG_REQUIRE_SERVICES") != "" {
		t.Fatalf("%s is not there: %v", service, err)
	}
	t.Skipf("%s is not there: %v", service, err)
}

// redisPrefix is a prefix of names in Redis that nobody else uses; what has it is
// removed when the test ends.
func redisPrefix(t testing.TB) string {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		client.Close()
		need(t, "Redis at 127.0.0.1:6379", err)
	}
	prefix := fmt.Sprintf("ratelimitlog-test-%016x", rand.Uint64())
	t.Cleanup(func() {
		defer client.Close()
		ctx := context.Background()
		for keys := client.Scan(ctx, 0, prefix+"*", 1000).Iterator(); keys.Next(ctx); {
			client.Del(ctx, keys.Val())
		}
	})
	return prefix
}
