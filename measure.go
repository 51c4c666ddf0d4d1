package ratelimitlog

import (
	"context"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/infrastructure/metrics"
)

// provideMetrics are a server's metrics. With Config.NoMetrics the limiter does not tell
// them anything, and nobody can ask for them.
func provideMetrics() *metrics.Metrics { return metrics.New(Version(), application.Operations) }

// provideServerObserver is who is told what the limiter of a server does.
func provideServerObserver(config Config, metrics *metrics.Metrics) application.Observer {
	if config.NoMetrics {
		return config.Observer
	}
	return metrics
}

// provideObserver is who is told what a limiter by itself does.
func provideObserver(config Config) application.Observer { return config.Observer }

// readTimeout is how long a scrape waits for the store.
const readTimeout = time.Second

// read is what a scrape reads of limiter and stores.
func read(limiter *application.Limiter, stores Stores) metrics.Readings {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	limiter.Ping(ctx) // so that an outage is seen also where nobody hits; State says what came of it
	state := limiter.State()
	r := metrics.Readings{Queued: state.Queued, Queue: state.Queue, Uncounted: state.Uncounted, StoreDown: state.Down}
	if stores.Unlogged != nil {
		unlogged := stores.Unlogged()
		r.Unlogged = &unlogged
	}
	if stores.Size == nil || state.Down {
		return r
	}
	size, err := stores.Size(ctx)
	if err != nil {
		return r
	}
	r.LogRows, r.DatabaseBytes, r.WALBytes = &size.Calls, &size.Bytes, size.WALBytes
	return r
}
