package ratelimitlog

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/logging"
	"github.com/nene2-ft/ratelimitlog/infrastructure/metrics"
	"github.com/nene2-ft/ratelimitlog/interfaces/dashboard"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
)

// What wire.go cannot say by itself: which field of the configuration goes where.

func provideLogger(config Config) (*zap.Logger, error) {
	return logging.New(logging.Options{Level: config.LogLevel, Format: config.LogFormat, To: config.logTo()})
}

func provideRules(config Config) (*application.Rules, error) { return config.Rules() }

func provideHTTPOptions(config Config, metrics *metrics.Metrics) httpapi.Options {
	options := httpapi.Options{
		Pages:       dashboard.Pages(),
		Tokens:      httpapi.Tokens{Admin: config.AdminToken, Audit: config.AuditToken, Client: config.ClientToken},
		CORSOrigins: config.CORSOrigins,
	}
	if !config.NoMetrics {
		options.Pages["/metrics"], options.Responded = metrics.Handler(), metrics.Responded
	}
	return options
}

// pageTimeout is how long a server reads a page of the log.
const pageTimeout = 10 * time.Second

// provideHistoryOptions lets a server's readers see all that it has answered.
func provideHistoryOptions(keys domain.KeyHasher, stores Stores, limiter *application.Limiter, observer application.Observer) application.HistoryOptions {
	return application.HistoryOptions{Keys: keys, Timeout: pageTimeout, Observer: observer, Flush: func(ctx context.Context) error {
		if err := limiter.Sync(ctx); err != nil || stores.Flush == nil {
			return err
		}
		return stores.Flush(ctx)
	}}
}

// provideReaderOptions are those of who reads what others have answered.
func provideReaderOptions(keys domain.KeyHasher) application.HistoryOptions {
	return application.HistoryOptions{Keys: keys}
}

func provideVerifier(config Config, rules *application.Rules, stores Stores) *application.Verifier {
	return application.NewVerifier(stores.Log, stores.Limiter.Counter, application.VerifierOptions{Now: config.Now, Apart: stores.Apart, Policies: rules.Policies(), Quotas: stores.Limiter.Quotas})
}

func provideOptions(config Config, keys domain.KeyHasher, stores Stores, observer application.Observer, log *zap.Logger) application.Options {
	return application.Options{
		Now: config.Now, Timeout: or(config.StoreTimeout, stores.Timeout), Queue: config.Queue, Batch: stores.Batch, Keys: keys, Observer: observer,
		Report: func(err error) { log.Error("background work failed", zap.Error(err)) },
		Outage: func(outage application.Outage) {
			if !outage.Over {
				log.Error("the store is down", zap.Error(outage.Cause))
				return
			}
			log.Info("the store is back", zap.Duration("after", time.Since(outage.Since)), zap.Int64("unchecked_hits", outage.Unchecked), zap.Int64("undecided_hits", outage.Undecided))
		},
	}
}
