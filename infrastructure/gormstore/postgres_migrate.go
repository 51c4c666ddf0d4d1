package gormstore

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/nene2-ft/ratelimitlog/migrations"
)

// MigratePostgres brings the schema of the database that dsn names up to date. For
// dsn see [OpenPostgres].
func MigratePostgres(ctx context.Context, dsn string) error {
	config, err := parsePostgresDSN(dsn)
	if err != nil {
		return err
	}
	pool := openPostgresPool(config)
	defer pool.Close()
	return migratePostgres(ctx, pool)
}

func newPostgresMigrator(pool *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations.Postgres, "postgres")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, pool, files, goose.WithSessionLocker(migrationLock{}))
}

// migratePostgres brings the schema up to date. Who comes second waits for the
// first and finds nothing to do.
func migratePostgres(ctx context.Context, pool *sql.DB) error {
	migrator, err := newPostgresMigrator(pool)
	if err != nil {
		return err
	}
	if _, err := migrator.Up(ctx); err != nil {
		return fmt.Errorf("bring the schema up to date: %w", err)
	}
	return checkSchema(ctx, pool, schemaVersion(migrator))
}

// migrationLock is an advisory lock, one for each schema of a database. Unlike
// goose's own it does not look every few seconds whether it is free, but waits.
type migrationLock struct{}

const migrationLockID = `hashtextextended('ratelimitlog ' || current_schema(), 0)`

func (migrationLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock(`+migrationLockID+`)`)
	return err
}

func (migrationLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // goose gives it none
	defer cancel()
	_, err := conn.ExecContext(ctx, `SELECT pg_advisory_unlock(`+migrationLockID+`)`)
	return err
}
