package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"

	"github.com/nene2-ft/ratelimitlog/migrations"
)

// Why program and database do not fit.
var (
	ErrOldSchema = errors.New("the schema is missing or older than this program; run ratelimitlog migrate with the same --dsn and --audit-dsn")
	ErrNewSchema = errors.New("the schema is newer than this program; use the newer program")
)

func newMigrator(pool *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations.SQLite, "sqlite")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectSQLite3, pool, files)
}

// migrateUp brings the schema up to date. Processes that start together may get
// in each other's way: each migration is a transaction, so that the second one to
// run it fails as a whole and finds it done when it looks again.
func migrateUp(ctx context.Context, pool *sql.DB) error {
	migrator, err := newMigrator(pool)
	if err != nil {
		return err
	}
	target := schemaVersion(migrator)
	for tries := 1; ; tries++ {
		err := checkSchema(ctx, pool, target)
		if errors.Is(err, ErrOldSchema) {
			if _, err = migrator.Up(ctx); err == nil {
				return nil
			}
			err = fmt.Errorf("bring the schema up to date: %w", err)
		}
		if err == nil || errors.Is(err, ErrNewSchema) || tries >= 5 && !isBusy(err) || tries >= 200 {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// schemaVersion is the newest schema that this program knows.
func schemaVersion(migrator *goose.Provider) int64 {
	sources := migrator.ListSources()
	return sources[len(sources)-1].Version
}

// checkSchema compares the schema with the version that is expected. It writes nothing.
func checkSchema(ctx context.Context, pool *sql.DB, target int64) error {
	var current int64
	err := pool.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version`).Scan(&current)
	switch {
	case err != nil && isMissingTable(err):
		return ErrOldSchema
	case err != nil:
		return err
	case current < target:
		return ErrOldSchema
	case current > target:
		return ErrNewSchema
	}
	return nil
}

func isMissingTable(err error) bool {
	var postgres *pgconn.PgError
	if errors.As(err, &postgres) {
		return postgres.Code == "42P01"
	}
	return strings.Contains(err.Error(), "no such table") // SQLite has no code for it
}
