package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Postgres keeps counters and log in a PostgreSQL database (13 or newer, encoding
// UTF8). It is safe for concurrent use, and any number of processes may share the
// database and stay exact.
//
// A unit of work that takes once and appends, as those of the limiter do, takes two
// round trips, and three if it is the first to hit a window. It runs in READ
// COMMITTED, locks the windows in the order of the primary key, and waits for other
// units only where they have a window in common and, for an instant before the
// commit, to append to the log: the IDs of calls are in the order of commits.
//
// Every statement keeps to the deadline of its context, on the server too. A unit
// whose commit was not answered in time may have been kept.
//
// Through a proxy that pools transactions (PgBouncer), put
// default_query_exec_mode=exec into the DSN, because prepared statements belong to
// connections. Migrate past the proxy: migrations hold a lock of their session.
type Postgres struct {
	writes *sql.DB
	reads  *sql.DB // apart, so that long reads of the log never keep a hit waiting for a connection

	onWrites, onReads *gorm.DB
	statements        pgStatements
	blocks            *blockKeeper

	schema        int64 // the version that this program expects
	migrate       bool
	tamperEvident bool
	chained       atomic.Bool   // calls are chained; known once the schema is
	usable        atomic.Bool   // the schema has been seen to be the right one
	checking      chan struct{} // capacity 1, held by who checks the schema
}

var (
	_ domain.Counter      = (*Postgres)(nil)
	_ domain.AuditLog     = (*Postgres)(nil)
	_ domain.UnitOfWork   = (*Postgres)(nil)
	_ domain.Sweeper      = (*Postgres)(nil)
	_ domain.Totaler      = (*Postgres)(nil)
	_ domain.Derived      = (*Postgres)(nil)
	_ domain.CallPruner   = (*Postgres)(nil)
	_ domain.WindowLister = (*Postgres)(nil)
	_ domain.Chained      = (*Postgres)(nil)
	_ domain.Quotas       = (*Postgres)(nil)
)

// PostgresOptions tune a store on PostgreSQL. The zero value is good.
type PostgresOptions struct {
	// Migrate says to bring the schema up to date at the first use, if it is older.
	// Processes that start together wait for each other. By default an old schema is
	// an error that says what to do. The deadline of the first use holds for the
	// migration too; Ping with a generous one is a good first use.
	Migrate bool
	// TamperEvident chains the calls of the log, from now on for ever, see
	// [domain.Chained]. Every process that writes to the database must be started after that.
	TamperEvident bool
}

const (
	// pgConnections is how many connections write at most, and how many read.
	pgConnections = 4
	// pgLifetime is when a connection is replaced, so that those to a server that
	// gave its address to another do not stay for ever.
	pgLifetime = 30 * time.Minute
)

// OpenPostgres makes a store on the database that dsn names,
// "postgres://user:password@host:port/database?parameters", with the parameters of
// pgx (sslmode, search_path, connect_timeout and so on) and the environment
// variables of libpq. It does not connect: the server may come up later. The first
// use checks the schema, and each further one until it was found right. Close it
// after use.
func OpenPostgres(dsn string, options PostgresOptions) (*Postgres, error) {
	config, err := parsePostgresDSN(dsn)
	if err != nil {
		return nil, err
	}
	p := &Postgres{writes: openPostgresPool(config), reads: openPostgresPool(config), migrate: options.Migrate, tamperEvident: options.TamperEvident, checking: make(chan struct{}, 1)}
	p.blocks = newBlockKeeper(postgresEngine, p.readOnce, p.write)
	if err := p.prepare(); err != nil {
		p.Close()
		return nil, fmt.Errorf("open PostgreSQL: %w", err)
	}
	return p, nil
}

func (p *Postgres) prepare() (err error) {
	if p.onWrites, err = openPostgresGORM(p.writes); err != nil {
		return err
	}
	if p.onReads, err = openPostgresGORM(p.reads); err != nil {
		return err
	}
	if p.statements, err = composePostgres(p.onWrites); err != nil {
		return err
	}
	migrator, err := newPostgresMigrator(p.writes)
	if err != nil {
		return err
	}
	p.schema = schemaVersion(migrator)
	return nil
}

// parsePostgresDSN never quotes the DSN in an error, because of the password.
func parsePostgresDSN(dsn string) (*pgx.ConnConfig, error) {
	invalid := func(reason string) error { return &domain.InvalidError{Field: "dsn", Reason: reason} }
	if !isPostgresDSN(dsn) {
		return nil, invalid("does not begin with postgres://; write postgres://USER@HOST:PORT/DATABASE")
	}
	at, err := url.Parse(dsn)
	if err != nil {
		return nil, invalid("is no URL; percent-encode what is special in the user's name and the password")
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		reason := "cannot be used"
		if cause := errors.Unwrap(err); cause != nil && !tellsSecret(at, cause.Error()) {
			reason += ": " + cause.Error()
		}
		return nil, invalid(reason)
	}
	if config.ConnectTimeout <= 0 {
		config.ConnectTimeout = 5 * time.Second
	}
	return config, nil
}

// isPostgresDSN reports whether dsn names a PostgreSQL database.
func isPostgresDSN(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// tellsSecret reports whether text has one of the secrets that may be in a DSN.
func tellsSecret(at *url.URL, text string) bool {
	password, _ := at.User.Password()
	for _, secret := range []string{password, at.Query().Get("password"), at.Query().Get("sslpassword")} {
		if secret != "" && strings.Contains(text, secret) {
			return true
		}
	}
	return false
}

func openPostgresPool(config *pgx.ConnConfig) *sql.DB {
	pool := stdlib.OpenDB(*config)
	pool.SetMaxOpenConns(pgConnections)
	pool.SetMaxIdleConns(pgConnections)
	pool.SetConnMaxLifetime(pgLifetime)
	return pool
}

func openPostgresGORM(pool gorm.ConnPool) (*gorm.DB, error) {
	return gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: pool}), &gorm.Config{
		Logger:                 logger.Discard, // errors are returned, and logged where they are answered
		SkipDefaultTransaction: true,           // what belongs together runs in a unit of work
		DisableAutomaticPing:   true,           // the server may come up later
	})
}

// IsUnreachable reports whether err says that no connection was made, or not in time:
// that may be over any moment.
func IsUnreachable(err error) bool {
	return errors.As(err, new(*pgconn.ConnectError)) || errors.As(err, new(net.Error)) || errors.Is(err, context.DeadlineExceeded)
}

// Close ends all connections.
func (p *Postgres) Close() error {
	p.blocks.close()
	return errors.Join(p.writes.Close(), p.reads.Close())
}

// Ping reports whether the database answers, with the schema that it should have.
func (p *Postgres) Ping(ctx context.Context) error {
	if err := p.check(ctx); err != nil {
		return err
	}
	return p.checkSchema(ctx)
}

// check makes sure, once, that the schema is the one that this program expects.
func (p *Postgres) check(ctx context.Context) error {
	if p.usable.Load() {
		return nil
	}
	select {
	case p.checking <- struct{}{}:
		defer func() { <-p.checking }()
	case <-ctx.Done():
		return fmt.Errorf("check the schema: %w", context.Cause(ctx))
	}
	if p.usable.Load() {
		return nil
	}
	err := p.checkSchema(ctx)
	if p.migrate && errors.Is(err, ErrOldSchema) {
		err = migratePostgres(ctx, p.writes)
	}
	if err == nil {
		var chained bool
		chained, err = openChain(p.onWrites.WithContext(ctx), p.tamperEvident)
		p.chained.Store(chained)
	}
	p.usable.Store(err == nil)
	return err
}

func (p *Postgres) checkSchema(ctx context.Context) error {
	var encoding string
	if err := p.reads.QueryRowContext(ctx, `SELECT current_setting('server_encoding')`).Scan(&encoding); err != nil {
		return fmt.Errorf("check the schema: %w", err)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("the database has the encoding %s, which cannot hold every key; it must be UTF8", encoding)
	}
	if err := checkSchema(ctx, p.reads, p.schema); err != nil {
		return fmt.Errorf("check the schema: %w", err)
	}
	return nil
}

// Look implements [domain.Counter] without waiting for anybody who writes.
func (p *Postgres) Look(ctx context.Context, slots []domain.Slot) ([]domain.Tally, error) {
	if err := p.check(ctx); err != nil {
		return nil, err
	}
	ledger := domain.NewLookLedger(slots)
	u := &pgUnit{store: p, pool: p.reads, ctx: ctx}
	defer u.release()
	batch := &pgx.Batch{}
	u.begin(ctx, batch)
	batch.Queue(readWindows, identities(ledger.Windows)...).Query(func(rows pgx.Rows) error { return scanTallies(rows, ledger, nil) })
	batch.Queue(`COMMIT`)
	if err := u.send(ctx, batch, true); err != nil {
		return nil, fmt.Errorf("read %d windows: %w", len(ledger.Windows), err)
	}
	return ledger.Look(slots), nil
}

// Take implements [domain.Counter] in a unit of work of its own.
func (p *Postgres) Take(ctx context.Context, takes []domain.Take) (taken []domain.Taken, err error) {
	err = p.Do(ctx, func(counter domain.Counter, _ domain.AuditLog) error {
		taken, err = counter.Take(ctx, takes)
		return err
	})
	return taken, err
}

// Reset implements [domain.Counter] in a unit of work of its own.
func (p *Postgres) Reset(ctx context.Context, policy, key string) error {
	return p.Do(ctx, func(counter domain.Counter, _ domain.AuditLog) error { return counter.Reset(ctx, policy, key) })
}

// Append implements [domain.AuditLog] in a unit of work of its own.
func (p *Postgres) Append(ctx context.Context, calls []domain.Call) error {
	return p.Do(ctx, func(_ domain.Counter, log domain.AuditLog) error { return log.Append(ctx, calls) })
}

// Calls implements [domain.AuditLog].
func (p *Postgres) Calls(ctx context.Context, query domain.CallQuery) ([]domain.Call, error) {
	return postgresEngine.calls(p.shortly(ctx), query)
}

// shortly runs statements on the connections that read, each by itself.
func (p *Postgres) shortly(ctx context.Context) reads {
	return func(do func(*gorm.DB) error) error { return p.readOnce(ctx, do) }
}

func (p *Postgres) readOnce(ctx context.Context, do func(*gorm.DB) error) error {
	if err := p.check(ctx); err != nil {
		return err
	}
	return do(p.onReads.WithContext(ctx))
}

// write runs statements in a transaction.
func (p *Postgres) write(ctx context.Context, do func(*gorm.DB) error) error {
	if err := p.check(ctx); err != nil {
		return err
	}
	return p.onWrites.WithContext(ctx).Transaction(do)
}

// Totals implements [domain.Totaler].
func (p *Postgres) Totals(ctx context.Context, query domain.TotalQuery, add func(domain.Total)) error {
	return postgresEngine.totals(p.shortly(ctx), query, add)
}

// PruneCalls implements [domain.CallPruner].
func (p *Postgres) PruneCalls(ctx context.Context, prune domain.Prune) (removed int, more bool, err error) {
	return pruneCalls(&pruner{postgresEngine, p.shortly(ctx), func(do func(*gorm.DB) error) error { return p.write(ctx, do) }, prune})
}

// PrunedCalls implements [domain.CallPruner].
func (p *Postgres) PrunedCalls(ctx context.Context) ([]domain.PrunedCalls, error) {
	return prunedCalls(p.shortly(ctx))
}

// Windows implements [domain.WindowLister].
func (p *Postgres) Windows(ctx context.Context, after domain.LedgerWindow, limit int) ([]domain.LedgerWindow, error) {
	return windowsAfter(p.shortly(ctx), after, after.Start.UTC(), limit)
}

// Sweep implements [domain.Sweeper]. It passes over windows that are being hit at
// this moment, and those that another sweep removes.
func (p *Postgres) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	if err := p.check(ctx); err != nil {
		return 0, err
	}
	deleted := p.onWrites.WithContext(ctx).Exec(sweepExpired, now, limit)
	if deleted.Error != nil {
		return 0, fmt.Errorf("sweep: %w", deleted.Error)
	}
	return int(deleted.RowsAffected), nil
}

// ChangeQuota implements [domain.Quotas].
func (p *Postgres) ChangeQuota(ctx context.Context, change domain.QuotaChange, call domain.Call) error {
	return p.transact(ctx, func(u *pgUnit) error {
		tx, err := u.lockQuotas()
		if err != nil {
			return fmt.Errorf("change a quota: %w", err)
		}
		if err := changeQuota(tx, change, call.At); err != nil {
			return err
		}
		return u.Append(ctx, []domain.Call{call})
	})
}

// Quotas implements [domain.Quotas].
func (p *Postgres) Quotas(ctx context.Context, policy, after string, limit int) ([]domain.Quota, error) {
	if err := p.check(ctx); err != nil {
		return nil, err
	}
	return quotas(p.onReads.WithContext(ctx), policy, after, limit)
}

// QuotaChanges implements [domain.Quotas].
func (p *Postgres) QuotaChanges(ctx context.Context, after int64, limit int) ([]domain.QuotaChange, error) {
	if err := p.check(ctx); err != nil {
		return nil, err
	}
	return quotaChanges(p.onReads.WithContext(ctx), after, limit)
}
