// Command bench measures the server against two baselines in one run: a bare
// Fiber handler that answers the same bytes, and the pattern that the product grew
// from, one transaction for each request. Hits on two policies and on sliding ones
// it measures against a hit on one fixed policy. It starts every server as a
// process of its own on a free loopback port and loads it in a closed loop, with
// wrk where that is installed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var (
		o      options
		server = flag.String("server", "", "the ratelimitlog binary to measure")
		role   = flag.String("role", "", "internal: be one of the baseline servers")
		dsn    = flag.String("dsn", "", "internal: the baseline's server")
		keys   = flag.Int("distinct", 0, "instead, send this many distinct keys and watch the server's memory")
	)
	calls := flag.Int("calls", 0, "instead, fill an audit log with this many calls and measure its answers, and hits beside it; with -postgres there")
	fill := flag.String("fill", "", "with -calls, leave the log in this new SQLite file and measure nothing")
	flag.IntVar(&o.rounds, "rounds", 9, "how often each scenario is measured; the median counts")
	flag.DurationVar(&o.duration, "duration", 3*time.Second, "how long each measurement takes")
	flag.IntVar(&o.connections, "connections", 256, "how many connections ask at a time")
	flag.IntVar(&o.keys, "keys", 1000, "how many keys are asked for in turn")
	flag.StringVar(&o.redis, "redis", "", "measure on this Redis too: redis://127.0.0.1:6379")
	flag.StringVar(&o.postgres, "postgres", "", "measure on this PostgreSQL too: postgres://postgres@127.0.0.1:5432/test")
	flag.BoolVar(&o.enginesOnly, "engines", false, "measure on these two alone")
	flag.Parse()
	switch *role {
	case "bare-allowed":
		return serveBare(ctx, allowedPing)
	case "bare-refused":
		return serveBare(ctx, refusedPing)
	case "howto":
		return serveHowTo(ctx)
	case "redis-script":
		return serveRedisScript(ctx, *dsn)
	case "postgres-upsert":
		return servePostgresUpsert(ctx, *dsn, false)
	case "postgres-logged":
		return servePostgresUpsert(ctx, *dsn, true)
	}
	if *server == "" {
		return fmt.Errorf("-server is missing: build ./cmd/ratelimitlog and name the binary")
	}
	var err error
	if o.server, err = filepath.Abs(*server); err != nil {
		return err
	}
	if *keys > 0 {
		return watchMemory(ctx, o, *keys)
	}
	if *calls > 0 && *fill != "" {
		return fillFile(ctx, o, *calls, *fill)
	}
	if *calls > 0 {
		return measureCalls(ctx, o, *calls)
	}
	return compare(ctx, o)
}
