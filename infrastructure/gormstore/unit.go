package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mattn/go-sqlite3"
	"gorm.io/gorm"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// unit is a unit of work: counter and log in one transaction.
type unit struct {
	store   *Store
	gorm    *gorm.DB // in the transaction
	*runner          // in the same transaction
	logged  bool     // calls were appended
}

var errReadOnly = errors.New("the database was opened to read only")

// Do implements [domain.UnitOfWork].
func (s *Store) Do(ctx context.Context, work func(domain.Counter, domain.AuditLog) error) error {
	return s.transact(ctx, func(u *unit) error { return work(u, u) })
}

// transact runs work in a transaction that holds the write lock from its first
// moment on, so that what it reads stays true until it commits.
func (s *Store) transact(ctx context.Context, work func(*unit) error) error {
	if s.writer == nil {
		return errReadOnly
	}
	tx, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	done := false
	defer func() {
		if !done { // also when work panics
			tx.Rollback()
		}
	}()
	s.scratch.tx = tx.Statement.ConnPool.(*sql.Tx) // the one transaction there can be at a time
	u := &unit{store: s, gorm: tx, runner: &s.scratch}
	if err := work(u); err != nil {
		return err
	}
	done = true
	if err := tx.Commit().Error; err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	s.shorten()
	if u.logged {
		s.blocks.appended()
	}
	return nil
}

// begin takes the write lock and waits for it as long as the context allows.
//
// SQLite itself waits by sleeping, ever longer, up to 100 ms at a time. Beside a
// process that writes without a break the lock is free for microseconds only, and
// sleeps that long miss it until the wait is over. Many short waits do not.
func (s *Store) begin(ctx context.Context) (*gorm.DB, error) {
	// Once begun, a transaction is not cut short: it takes milliseconds, and watching
	// the context costs each of its statements more than that is worth.
	db := s.gorm.WithContext(context.WithoutCancel(ctx))
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		tx := db.Begin()
		if !isBusy(tx.Error) {
			return tx, tx.Error
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another process holds the write lock: %w", context.Cause(ctx))
		case <-time.After(time.Duration(rand.Int64N(int64(2 * time.Millisecond)))):
		}
	}
}

func isBusy(err error) bool {
	var failed sqlite3.Error
	return errors.As(err, &failed) && failed.Code == sqlite3.ErrBusy
}

// Sweep implements [domain.Sweeper].
func (s *Store) Sweep(ctx context.Context, now time.Time, limit int) (removed int, err error) {
	err = s.transact(ctx, func(u *unit) error {
		expired := u.gorm.Model(&windowRow{}).Select("policy", "key", "schedule", "window_start").
			Where("expires_at <= ?", now.UTC().Format(seconds)).Limit(limit)
		deleted := u.gorm.Where("(policy, key, schedule, window_start) IN (?)", expired).Delete(&windowRow{})
		removed = int(deleted.RowsAffected)
		return deleted.Error
	})
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	return removed, nil
}
