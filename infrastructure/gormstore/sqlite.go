package gormstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/mattn/go-sqlite3"
	gormsqlite "gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Store keeps counters and log in one SQLite database. It is safe for concurrent use.
type Store struct {
	writer *sql.DB // one connection; nil if the store was opened to read
	reader *sql.DB // several connections; the writer itself for a database in memory

	gorm   *gorm.DB // on writer
	reads  *gorm.DB // on reader
	writes writeStatements
	// tallies and looks are the same statement, for the writer and for the reader.
	tallies, looks statement

	blocks  *blockKeeper // nil if the store was opened to read
	chained bool         // calls are chained
	schema  int64        // the version that this program expects
	wal     wal
	scratch runner // of the transaction under way; the single writing connection guards it
}

var (
	_ domain.Counter      = (*Store)(nil)
	_ domain.AuditLog     = (*Store)(nil)
	_ domain.UnitOfWork   = (*Store)(nil)
	_ domain.Sweeper      = (*Store)(nil)
	_ domain.Totaler      = (*Store)(nil)
	_ domain.Derived      = (*Store)(nil)
	_ domain.CallPruner   = (*Store)(nil)
	_ domain.WindowLister = (*Store)(nil)
	_ domain.Chained      = (*Store)(nil)
	_ domain.Gapless      = (*Store)(nil)
)

// Options tune a store. The zero value is good.
type Options struct {
	// Synchronous defaults to SynchronousNormal.
	Synchronous Synchronous
	// TamperEvident chains the calls of the log, from now on for ever, see
	// [domain.Chained]. Every process that writes to the file must be started after that.
	TamperEvident bool
	// MustExist makes a file that is not there an error, instead of creating it.
	MustExist bool
}

// readers is how many connections read at a time.
const readers = 4

// Open opens the database that dsn names, "sqlite:path/to/file" or
// "sqlite::memory:", creates the file if it does not exist and brings the schema
// up to date. Close it after use.
func Open(ctx context.Context, dsn string, options Options) (*Store, error) {
	at, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	switch options.Synchronous {
	case "":
		options.Synchronous = SynchronousNormal
	case SynchronousNormal, SynchronousFull:
	default:
		return nil, &domain.InvalidError{Field: "synchronous", Reason: fmt.Sprintf("is %q, it must be normal or full", options.Synchronous)}
	}
	s := &Store{}
	if options.MustExist && at.path != "" {
		if _, err := os.Stat(at.path); errors.Is(err, fs.ErrNotExist) {
			return nil, missing(dsn)
		}
	}
	if err := s.open(ctx, at, options); err != nil {
		s.Close()
		return nil, fmt.Errorf("open %s: %w", dsn, err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, at location, options Options) (err error) {
	s.writer = openPool(at.uri(writer(options.Synchronous)), 1)
	if err := migrateUp(ctx, s.writer); err != nil {
		return err
	}
	if s.gorm, err = openGORM(s.writer); err != nil {
		return err
	}
	if s.chained, err = s.openChain(ctx, options.TamperEvident); err != nil {
		return err
	}
	if s.writes, err = prepareWrites(ctx, s.gorm, s.writer); err != nil {
		return err
	}
	if s.tallies, err = prepareTallies(ctx, s.writer); err != nil {
		return err
	}
	s.blocks = newBlockKeeper(sqliteEngine, s.readOnce, s.write)
	if at.path == "" {
		s.reader, s.reads, s.looks = s.writer, s.gorm, s.tallies
		return s.expectSchema(s.reader)
	}
	s.wal.path = at.path + "-wal"
	return s.openReader(ctx, at)
}

// OpenReader opens an existing database to read only: what changes anything
// fails. The schema must be up to date.
func OpenReader(ctx context.Context, dsn string) (*Store, error) {
	at, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	if at.path == "" {
		return nil, &domain.InvalidError{Field: "dsn", Reason: "is a database in memory: there is nothing in it to be read"}
	}
	s := &Store{}
	if _, err = os.Stat(at.path); err == nil {
		err = s.openReader(ctx, at)
	}
	if err != nil {
		s.Close()
		if errors.Is(err, fs.ErrNotExist) {
			return nil, missing(dsn)
		}
		return nil, fmt.Errorf("open %s: %w", dsn, err)
	}
	return s, nil
}

func missing(dsn string) error {
	return fmt.Errorf("open %s: there is no such database yet; serve, migrate and hit create it", dsn)
}

func (s *Store) openReader(ctx context.Context, at location) (err error) {
	s.reader = openPool(at.uri(reader()), readers)
	if err := s.expectSchema(s.reader); err != nil {
		return err
	}
	if err := s.Ping(ctx); err != nil {
		return err
	}
	if s.reads, err = openGORM(s.reader); err != nil {
		return err
	}
	s.looks, err = prepareTallies(ctx, s.reader)
	return err
}

// Close ends all connections. The last one to close a database folds its
// write-ahead log into the file.
func (s *Store) Close() error {
	if s.blocks != nil {
		s.blocks.close()
	}
	var errs []error
	if s.reader != nil && s.reader != s.writer {
		errs = append(errs, s.reader.Close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.Close())
	}
	return errors.Join(errs...)
}

// Ping reports whether the database answers, with the schema that it should have.
func (s *Store) Ping(ctx context.Context) error { return checkSchema(ctx, s.reader, s.schema) }

func (s *Store) expectSchema(pool *sql.DB) error {
	migrator, err := newMigrator(pool)
	if err != nil {
		return err
	}
	s.schema = schemaVersion(migrator)
	return nil
}

func openPool(uri string, connections int) *sql.DB {
	pool := sql.OpenDB(connector{uri})
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return pool
}

func openGORM(pool *sql.DB) (*gorm.DB, error) {
	return gorm.Open(gormsqlite.New(gormsqlite.Config{Conn: pool}), &gorm.Config{
		Logger:                 logger.Discard, // errors are returned, and logged where they are answered
		SkipDefaultTransaction: true,           // what belongs together runs in a unit of work
	})
}

// connector opens connections that are set up alike, without a driver registered
// under a global name.
type connector struct{ uri string }

// setup is run on each connection; for the numbers see wal.go.
var setup = fmt.Sprintf(`PRAGMA wal_autocheckpoint = %d; PRAGMA journal_size_limit = %d`, walPages, walBytes)

var sqliteDriver = &sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
	_, err := c.Exec(setup, nil)
	return err
}}

func (c connector) Connect(context.Context) (driver.Conn, error) { return sqliteDriver.Open(c.uri) }
func (c connector) Driver() driver.Driver                        { return sqliteDriver }
