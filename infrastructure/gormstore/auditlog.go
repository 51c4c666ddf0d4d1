package gormstore

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Append implements [domain.AuditLog] inside a unit of work.
func (u *unit) Append(ctx context.Context, calls []domain.Call) error {
	if u.store.chained && len(calls) > 0 {
		linked, err := u.link(ctx, calls)
		if err != nil {
			return fmt.Errorf("chain %d calls: %w", len(calls), err)
		}
		calls = linked
	}
	insert, values := &u.store.writes.insertCalls, (*runner).callValues
	if isFull(calls) {
		insert, values = &u.store.writes.insertFull, (*runner).fullCallValues
	}
	err := insert.run(ctx, u.runner, len(calls), func(bound []any, i int) []any {
		return values(u.runner, bound, &calls[i])
	}, nil)
	if err != nil {
		return fmt.Errorf("log %d calls: %w", len(calls), err)
	}
	u.logged = u.logged || len(calls) > 0
	return nil
}

// Calls implements [domain.AuditLog] inside a unit of work.
func (u *unit) Calls(ctx context.Context, query domain.CallQuery) ([]domain.Call, error) {
	db := u.gorm.WithContext(ctx)
	return sqliteEngine.calls(func(do func(*gorm.DB) error) error { return do(db) }, query)
}

// Append implements [domain.AuditLog] in a unit of work of its own.
func (s *Store) Append(ctx context.Context, calls []domain.Call) error {
	return s.Do(ctx, func(_ domain.Counter, log domain.AuditLog) error { return log.Append(ctx, calls) })
}

// Calls implements [domain.AuditLog] with the connections that read, in short
// statements, so that whoever pages through a long log does not keep the write-ahead
// log from being reused.
func (s *Store) Calls(ctx context.Context, query domain.CallQuery) ([]domain.Call, error) {
	return sqliteEngine.calls(s.shortly(ctx), query)
}

// shortly runs statements on the connections that read, each by itself.
func (s *Store) shortly(ctx context.Context) reads {
	return func(do func(*gorm.DB) error) error { return s.readOnce(ctx, do) }
}

func (s *Store) readOnce(ctx context.Context, do func(*gorm.DB) error) error {
	s.wal.reading.RLock()
	defer s.wal.reading.RUnlock()
	return do(s.reads.WithContext(ctx))
}

// write runs statements in a transaction.
func (s *Store) write(ctx context.Context, do func(*gorm.DB) error) error {
	return s.transact(ctx, func(u *unit) error { return do(u.gorm.WithContext(ctx)) })
}

// Totals implements [domain.Totaler].
func (s *Store) Totals(ctx context.Context, query domain.TotalQuery, add func(domain.Total)) error {
	return sqliteEngine.totals(s.shortly(ctx), query, add)
}
