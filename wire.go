//go:build wireinject

package ratelimitlog

import (
	"context"

	"github.com/google/wire"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
)

// sqlite is the store: counters and log in one SQLite file.
var sqlite = wire.NewSet(
	provideStore,
	wire.Bind(new(domain.UnitOfWork), new(*gormstore.Store)),
	wire.Bind(new(domain.Counter), new(*gormstore.Store)),
	wire.Bind(new(domain.AuditLog), new(*gormstore.Store)),
	wire.Bind(new(domain.Sweeper), new(*gormstore.Store)),
	wire.Bind(new(domain.Quotas), new(*gormstore.Store)),
	wire.Bind(new(httpapi.Pinger), new(*gormstore.Store)),
)

// limiting is everything between a hit and the store.
var limiting = wire.NewSet(
	provideLogger,
	provideRules,
	provideOptions,
	wire.Struct(new(application.Stores), "*"),
	application.NewLimiter,
)

// NewLimiter opens the store and starts a limiter on it, to be used inside a Go
// program. The function it returns stops both; call it once no hit is under way.
func NewLimiter(ctx context.Context, config Config) (*application.Limiter, func(), error) {
	panic(wire.Build(sqlite, limiting))
}

// NewServer builds the HTTP server. The function it returns stops what stands
// behind it; call it after [Server.Run] has returned.
func NewServer(ctx context.Context, config Config) (*Server, func(), error) {
	panic(wire.Build(sqlite, limiting, provideHTTPOptions, httpapi.New, newServer))
}

// NewHistory opens the audit log to read it. The function it returns closes it.
func NewHistory(ctx context.Context, config Config) (*application.History, func(), error) {
	panic(wire.Build(sqlite, application.NewHistory))
}
