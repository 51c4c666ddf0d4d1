//go:build wireinject

package ratelimitlog

import (
	"context"

	"github.com/google/wire"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
)

// Where Stores comes from is the choice of adapters: openStores goes by the scheme
// of the DSN (see Config.engine), the constructors that end in On take any.

// limiting is everything between a hit and the stores.
var limiting = wire.NewSet(
	provideLogger,
	provideRules,
	provideKeyHasher,
	provideOptions,
	wire.FieldsOf(new(Stores), "Limiter"),
	application.NewLimiter,
)

// serving is everything between a request and a hit.
var serving = wire.NewSet(
	limiting,
	wire.FieldsOf(new(Stores), "Ready", "Log"),
	provideMetrics,
	provideServerObserver,
	provideHistoryOptions,
	application.NewHistory,
	provideHTTPOptions,
	httpapi.New,
	newServer,
)

// NewLimiter opens the store and starts a limiter on it, to be used inside a Go
// program. The function it returns stops both; call it once no hit is under way.
func NewLimiter(ctx context.Context, config Config) (*application.Limiter, func(), error) {
	panic(wire.Build(openStores, limiting, provideObserver))
}

// NewServer builds the HTTP server. The function it returns stops what stands
// behind it; call it after [Server.Run] has returned.
func NewServer(ctx context.Context, config Config) (*Server, func(), error) {
	panic(wire.Build(openStores, serving))
}

// NewHistory opens the audit log to read it. The function it returns closes it.
func NewHistory(ctx context.Context, config Config) (*application.History, func(), error) {
	panic(wire.Build(provideLogger, provideKeyHasher, openStores, wire.FieldsOf(new(Stores), "Log"), provideReaderOptions, application.NewHistory))
}

// NewVerifier opens log and counters to hold one against the other. The function it
// returns closes them.
func NewVerifier(ctx context.Context, config Config) (*application.Verifier, func(), error) {
	panic(wire.Build(provideLogger, provideRules, openStores, provideVerifier))
}

// NewExplainer opens the stores to say why a key was refused. The function it returns
// closes them.
func NewExplainer(ctx context.Context, config Config) (*application.Explainer, func(), error) {
	panic(wire.Build(openStores, limiting, provideObserver, wire.FieldsOf(new(Stores), "Log"), provideHistoryOptions, application.NewHistory, application.NewExplainer))
}

// NewLimiterOn starts a limiter on stores of the caller's, which stay theirs to close.
func NewLimiterOn(stores Stores, config Config) (*application.Limiter, func(), error) {
	panic(wire.Build(limiting, provideObserver))
}

// NewServerOn is NewServer on stores of the caller's, which stay theirs to close.
func NewServerOn(stores Stores, config Config) (*Server, func(), error) {
	panic(wire.Build(serving))
}
