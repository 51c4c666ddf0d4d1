package gormstore

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Append implements [domain.AuditLog] inside a unit of work.
func (u *unit) Append(ctx context.Context, calls []domain.Call) error {
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
	return nil
}

// Calls implements [domain.AuditLog] inside a unit of work.
func (u *unit) Calls(ctx context.Context, query domain.CallQuery) ([]domain.Call, error) {
	return calls(u.gorm.WithContext(ctx), query)
}

// Append implements [domain.AuditLog] in a unit of work of its own.
func (s *Store) Append(ctx context.Context, calls []domain.Call) error {
	return s.Do(ctx, func(_ domain.Counter, log domain.AuditLog) error { return log.Append(ctx, calls) })
}

// Calls implements [domain.AuditLog] with the connections that read. Its read
// transaction ends before it returns, so that whoever pages through a long log
// does not keep the write-ahead log from being reused.
func (s *Store) Calls(ctx context.Context, query domain.CallQuery) ([]domain.Call, error) {
	s.wal.reading.RLock()
	defer s.wal.reading.RUnlock()
	return calls(s.reads.WithContext(ctx), query)
}

func calls(db *gorm.DB, query domain.CallQuery) ([]domain.Call, error) {
	if query.Policy != "" {
		db = db.Where("policy = ?", query.Policy)
	}
	if query.Key != "" {
		db = db.Where("key = ?", query.Key)
	}
	if query.Outcome != "" {
		db = db.Where("kind = ? AND allowed = ?", domain.CallHit, query.Outcome == domain.OutcomeAllowed)
	}
	if len(query.Kinds) > 0 {
		db = db.Where("kind IN ?", query.Kinds)
	}
	if !query.From.IsZero() {
		db = db.Where("called_at >= ?", query.From.Add(time.Millisecond-1).UTC().Format(milliseconds))
	}
	if !query.To.IsZero() {
		db = db.Where("called_at < ?", query.To.Add(time.Millisecond-1).UTC().Format(milliseconds))
	}
	if query.Path != "" {
		db = db.Where("path = ?", query.Path)
	}
	if query.RequestID != "" {
		db = db.Where("request_id = ?", query.RequestID)
	}
	if query.After > 0 {
		db = db.Where("id > ?", query.After)
	}
	if query.Before > 0 {
		db = db.Where("id < ?", query.Before)
	}
	order := "id DESC"
	if query.OldestFirst {
		order = "id"
	}
	var rows []callRow
	if err := db.Order(order).Limit(query.Limit).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	found := make([]domain.Call, len(rows))
	for i := range rows {
		found[i] = rows[i].call()
	}
	return found, nil
}
