package ratelimitlog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
)

// Stores are the adapters that a limiter, a server and a history stand on. Whoever
// has adapters of their own passes them to [NewLimiterOn] or [NewServerOn].
type Stores struct {
	// Limiter are the ports that decide.
	Limiter application.Stores
	// Log is the audit log, to be read.
	Log domain.AuditLog
	// Ready says whether what is stored can be read.
	Ready httpapi.Pinger
}

// engine is what the scheme of a DSN chooses.
type engine struct {
	scheme string
	// timeout is how long a hit may wait by default. Beside SQLite there is no network
	// to fail: who waits there waits for another process that writes.
	timeout time.Duration
	open    func(context.Context, Config) (Stores, func(), error)
	migrate func(context.Context, Config) error
}

const networkTimeout = 250 * time.Millisecond

var engines = []engine{
	{"sqlite", 5 * time.Second, openSQLite, migrateSQLite},
}

// engine is the one that the DSN names.
func (c Config) engine() (engine, error) {
	scheme, _, _ := strings.Cut(c.dsn(), ":")
	var known []string
	for _, e := range engines {
		if e.scheme == scheme {
			return e, nil
		}
		known = append(known, e.scheme+":")
	}
	return engine{}, &domain.InvalidError{Field: "dsn", Reason: fmt.Sprintf("%q does not begin with one of %s", redact(c.dsn()), strings.Join(known, ", "))}
}

// openStores opens the stores that the DSN names.
func openStores(ctx context.Context, config Config) (Stores, func(), error) {
	engine, err := config.engine()
	if err != nil {
		return Stores{}, nil, err
	}
	return engine.open(ctx, config)
}

// Migrate creates the tables in the database, or brings them up to date.
func Migrate(ctx context.Context, config Config) error {
	engine, err := config.engine()
	if err != nil {
		return err
	}
	return engine.migrate(ctx, config)
}

// sqlStore is what the adapters of one SQL database have in common.
type sqlStore interface {
	domain.UnitOfWork
	domain.Counter
	domain.AuditLog
	domain.Sweeper
	domain.Quotas
	httpapi.Pinger
	Close() error
}

// together are the stores of one database that has everything.
func together(store sqlStore) (Stores, func(), error) {
	return Stores{
		Limiter: application.Stores{Units: store, Counter: store, Sweeper: store, Quotas: store},
		Log:     store, Ready: store,
	}, func() { store.Close() }, nil
}

func openSQLite(ctx context.Context, config Config) (Stores, func(), error) {
	var store *gormstore.Store
	var err error
	if config.ReadOnly {
		store, err = gormstore.OpenReader(ctx, config.dsn())
	} else {
		store, err = gormstore.Open(ctx, config.dsn(), gormstore.Options{Synchronous: gormstore.Synchronous(config.Synchronous)})
	}
	if err != nil {
		return Stores{}, nil, err
	}
	return together(store)
}

// migrateSQLite opens the file, which migrates it.
func migrateSQLite(ctx context.Context, config Config) error {
	_, closeStores, err := openSQLite(ctx, config)
	if err == nil {
		closeStores()
	}
	return err
}

// redact is a DSN without its password.
func redact(dsn string) string {
	before, after, found := strings.Cut(dsn, "@")
	scheme, userinfo, hasScheme := strings.Cut(before, "//")
	if user, _, hasPassword := strings.Cut(userinfo, ":"); found && hasScheme && hasPassword {
		return scheme + "//" + user + ":***@" + after
	}
	return dsn
}
