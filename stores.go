package ratelimitlog

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
	"github.com/nene2-ft/ratelimitlog/infrastructure/redisstore"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
)

// Stores are the adapters that a limiter, a server and a history stand on. Whoever
// has adapters of their own passes them to [NewLimiterOn] or [NewServerOn].
type Stores struct {
	// Limiter are the ports that decide.
	Limiter application.Stores
	// Log is the audit log, to be read.
	Log domain.AuditLog
	// Flush waits until Log has every call of the units of work that are done. Nil if it
	// has them at once.
	Flush func(context.Context) error
	// Unlogged is how many calls Flush would wait for. Nil if the log has them at once.
	Unlogged func() int
	// Size tells how large what is stored is. Nil if nobody can tell.
	Size func(context.Context) (gormstore.Size, error)
	// Apart says that log and counters share no transaction.
	Apart bool
	// Ready says whether what is stored can be read.
	Ready httpapi.Pinger
	// Timeout is how long a hit may wait by default, Config.StoreTimeout being 0, and
	// Batch how many hits one commit holds at most. 0 is the limiter's own default.
	Timeout time.Duration
	Batch   int
}

// engine is a way to keep things.
type engine struct {
	open func(context.Context, Config, *zap.Logger) (Stores, func(), error)
	// migrate brings the tables up to date.
	migrate func(context.Context, Config) error
	timeout time.Duration // see Stores
	batch   int
}

// A commit on a network takes round trips whatever its size, so it should hold what
// there is. Beside SQLite there is no network that could fail: who waits there waits
// for another process that writes.
const (
	networkTimeout = 250 * time.Millisecond
	networkBatch   = 1024
	sqliteTimeout  = 5 * time.Second
)

// engine is what the scheme of the DSN chooses.
func (c Config) engine() (engine, error) {
	switch scheme(c.dsn()) {
	case "redis", "rediss":
		return engine{openRedis, migrateAudit, networkTimeout, networkBatch}, nil
	}
	return sqlEngine("dsn", c.dsn(), "sqlite:, postgres: and redis:")
}

// sqlEngine is the engine of a DSN that keeps everything.
func sqlEngine(field, dsn, known string) (engine, error) {
	switch scheme(dsn) {
	case "sqlite":
		return engine{openSQLite, migrateSQLite, sqliteTimeout, 0}, nil
	case "postgres", "postgresql":
		return engine{openPostgres, migratePostgres, networkTimeout, networkBatch}, nil
	}
	return engine{}, &domain.InvalidError{Field: field, Reason: "does not begin with one of " + known} // unquoted: it may hold a password
}

func scheme(dsn string) string {
	before, _, _ := strings.Cut(dsn, ":")
	return before
}

// openStores opens the stores that the DSN names.
func openStores(ctx context.Context, config Config, log *zap.Logger) (Stores, func(), error) {
	engine, err := config.engine()
	if err != nil {
		return Stores{}, nil, err
	}
	stores, closeStores, err := engine.open(ctx, config, log)
	stores.Timeout, stores.Batch = engine.timeout, engine.batch
	return stores, closeStores, err
}

// Migrate creates the tables in the database, or brings them up to date.
func Migrate(ctx context.Context, config Config) error {
	engine, err := config.engine()
	if err != nil {
		return err
	}
	return engine.migrate(ctx, config)
}

// Backup copies the SQLite database that the configuration names into a new file, also
// while a server writes to it, see [gormstore.Backup]. Where the counters are in Redis
// it copies the log.
func Backup(ctx context.Context, config Config, file string) error {
	dsn := config.dsn()
	if strings.HasPrefix(scheme(dsn), "redis") {
		dsn = or(config.AuditDSN, defaultDSN)
	}
	if scheme(dsn) != "sqlite" {
		return &domain.InvalidError{Field: "dsn", Reason: "is no SQLite file; of PostgreSQL pg_dump makes a backup"}
	}
	return gormstore.Backup(ctx, dsn, file)
}

func openSQLite(ctx context.Context, config Config, _ *zap.Logger) (Stores, func(), error) {
	var store *gormstore.Store
	var err error
	if config.ReadOnly {
		store, err = gormstore.OpenReader(ctx, config.dsn())
	} else {
		store, err = gormstore.Open(ctx, config.dsn(), gormstore.Options{
			Synchronous: gormstore.Synchronous(config.Synchronous), TamperEvident: config.TamperEvident, MustExist: config.MustExist,
		})
	}
	if err != nil {
		return Stores{}, nil, err
	}
	return together(store)
}

// migrateSQLite opens the file, which migrates it.
func migrateSQLite(ctx context.Context, config Config) error {
	config.ReadOnly = false
	_, closeStores, err := openSQLite(ctx, config, nil)
	if err == nil {
		closeStores()
	}
	return err
}

// openPostgres does without a server that is not there yet, but not with one that
// cannot be used, for its schema or its encoding.
func openPostgres(ctx context.Context, config Config, _ *zap.Logger) (Stores, func(), error) {
	store, err := gormstore.OpenPostgres(config.DSN, gormstore.PostgresOptions{Migrate: config.Migrate, TamperEvident: config.TamperEvident})
	if err != nil {
		return Stores{}, nil, err
	}
	patience := 2 * time.Second
	if config.Migrate {
		patience = time.Minute // a large table may take its time
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := store.Ping(ctx); err != nil && !gormstore.IsUnreachable(err) {
		store.Close()
		return Stores{}, nil, err
	}
	return together(store)
}

func migratePostgres(ctx context.Context, config Config) error {
	return gormstore.MigratePostgres(ctx, config.DSN)
}

// sqlStore is what the adapters of one SQL database have in common.
type sqlStore interface {
	domain.UnitOfWork
	domain.Counter
	domain.AuditLog
	domain.Sweeper
	domain.Quotas
	domain.CallPruner
	httpapi.Pinger
	Size(context.Context) (gormstore.Size, error)
	Close() error
}

// together are the stores of one database that has everything.
func together(store sqlStore) (Stores, func(), error) {
	return Stores{
		Limiter: application.Stores{Units: store, Counter: store, Sweeper: store, Quotas: store, Calls: store},
		Log:     store, Ready: store, Size: store.Size,
	}, func() { store.Close() }, nil
}

// openRedis counts in Redis, and keeps log and quotas where AuditDSN says.
func openRedis(ctx context.Context, config Config, log *zap.Logger) (Stores, func(), error) {
	audit, auditConfig, err := config.audit()
	if err != nil {
		return Stores{}, nil, err
	}
	stores, closeAudit, err := audit.open(ctx, auditConfig, log)
	if err != nil {
		return Stores{}, nil, err
	}
	counters, err := redisstore.Open(config.DSN)
	if err != nil {
		closeAudit()
		return Stores{}, nil, err
	}
	units := domain.Apart(counters, stores.Log)
	stores.Limiter.Units, stores.Apart = units, true
	stores.Limiter.Counter, stores.Limiter.Sweeper = counters, nil
	units.Notice = func(unlogged int, err error) {
		if err != nil {
			log.Error("the audit log is behind", zap.Int("unlogged", unlogged), zap.Error(err))
			return
		}
		log.Info("the audit log has caught up")
	}
	stores.Flush, stores.Unlogged = units.Flush, units.Unlogged
	stores.Ready = counters // hits are decided without the log
	return stores, func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		if err := units.Close(ctx); err != nil {
			log.Error("calls that were answered are not in the audit log", zap.Int("lost", units.Unlogged()), zap.Error(err))
		}
		closeAudit()
		counters.Close()
	}, nil
}

// flushTimeout is how long the last calls may take that were not logged before.
const flushTimeout = 5 * time.Second

func migrateAudit(ctx context.Context, config Config) error {
	audit, config, err := config.audit()
	if err != nil {
		return err
	}
	return audit.migrate(ctx, config)
}

// audit is the engine that keeps the log beside counters, and the configuration for it.
func (c Config) audit() (engine, Config, error) {
	c.DSN = or(c.AuditDSN, defaultDSN)
	audit, err := sqlEngine("audit-dsn", c.DSN, "sqlite: and postgres:")
	return audit, c, err
}
