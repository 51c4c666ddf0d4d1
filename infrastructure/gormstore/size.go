package gormstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"gorm.io/gorm"
)

// Size is how large a database is.
type Size struct {
	// Calls is how many rows the log has; on PostgreSQL an estimate, its planner's.
	Calls int64
	// Bytes is the length of the file, or of all tables and indexes on PostgreSQL; 0 of a
	// database in memory. WALBytes is the length of SQLite's write-ahead log besides, nil
	// where there is none.
	Bytes    int64
	WALBytes *int64
}

// Size tells how large the database is, without counting: IDs have no gaps but those of
// rows that were pruned.
func (s *Store) Size(ctx context.Context) (size Size, err error) {
	err = s.readOnce(ctx, func(db *gorm.DB) error {
		return db.Raw(`SELECT max((SELECT coalesce(max(id), 0) FROM api_calls), coalesce(max(through), 0)) - coalesce(sum(removed), 0) FROM api_call_prunes`).Scan(&size.Calls).Error
	})
	if err != nil {
		return size, fmt.Errorf("read the size of the log: %w", err)
	}
	if s.wal.path == "" {
		return size, nil
	}
	if size.Bytes, err = length(strings.TrimSuffix(s.wal.path, "-wal")); err != nil {
		return size, err
	}
	wal, err := length(s.wal.path)
	size.WALBytes = &wal
	return size, err
}

// length is that of a file, 0 if it is not there.
func length(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Size tells how large the tables are.
func (p *Postgres) Size(ctx context.Context) (size Size, err error) {
	err = p.readOnce(ctx, func(db *gorm.DB) error {
		return db.Raw(`SELECT
			(SELECT n_live_tup FROM pg_stat_user_tables WHERE relid = 'api_calls'::regclass) AS calls,
			(SELECT sum(pg_total_relation_size(t.name::regclass)) FROM unnest(?::text[]) AS t (name))::bigint AS bytes`,
			"{rate_limit_windows,rate_limit_quotas,api_calls,api_call_blocks,api_calls_by_key,api_call_prunes,api_call_chains}").Scan(&size).Error
	})
	if err != nil {
		err = fmt.Errorf("read the size of the tables: %w", err)
	}
	return size, err
}
