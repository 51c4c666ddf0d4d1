package ratelimitlog

import (
	"context"

	"go.uber.org/zap"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
	"github.com/nene2-ft/ratelimitlog/infrastructure/logging"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
)

// What wire.go cannot say by itself: which field of the configuration goes where.

func provideLogger(config Config) (*zap.Logger, error) {
	return logging.New(logging.Options{Level: config.LogLevel, Format: config.LogFormat, To: config.logTo()})
}

func provideStore(ctx context.Context, config Config) (*gormstore.Store, func(), error) {
	open := func() (*gormstore.Store, error) {
		if config.ReadOnly {
			return gormstore.OpenReader(ctx, config.dsn())
		}
		return gormstore.Open(ctx, config.dsn(), gormstore.Options{Synchronous: gormstore.Synchronous(config.Synchronous)})
	}
	store, err := open()
	if err != nil {
		return nil, nil, err
	}
	return store, func() { store.Close() }, nil
}

func provideRules(config Config) (*application.Rules, error) { return config.Rules() }

func provideHTTPOptions(config Config) httpapi.Options {
	return httpapi.Options{
		Tokens:      httpapi.Tokens{Admin: config.AdminToken, Audit: config.AuditToken, Client: config.ClientToken},
		CORSOrigins: config.CORSOrigins,
	}
}

func provideOptions(config Config, log *zap.Logger) application.Options {
	return application.Options{
		Now: config.Now, Timeout: config.StoreTimeout, Queue: config.Queue,
		Report: func(err error) { log.Error("background work failed", zap.Error(err)) },
	}
}
