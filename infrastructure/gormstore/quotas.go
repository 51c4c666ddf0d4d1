package gormstore

import (
	"context"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/nene2-ft/ratelimitlog/domain"
)

var _ domain.Quotas = (*Store)(nil)

// quotaRow is a row of rate_limit_quotas.
type quotaRow struct {
	Policy    string `gorm:"primaryKey"`
	Key       string `gorm:"primaryKey"`
	Limit     *int64
	Removed   bool
	ChangedAt string
	Revision  int64
}

func (quotaRow) TableName() string { return "rate_limit_quotas" }

func (r *quotaRow) change() domain.QuotaChange {
	return domain.QuotaChange{
		Quota:   domain.Quota{Policy: r.Policy, Key: r.Key, Limit: limitOf(r.Limit)},
		Removed: r.Removed, Revision: r.Revision,
	}
}

// ChangeQuota implements [domain.Quotas].
func (s *Store) ChangeQuota(ctx context.Context, change domain.QuotaChange, call domain.Call) error {
	return s.transact(ctx, func(u *unit) error {
		row := quotaRow{
			Policy: change.Policy, Key: change.Key, Limit: nullLimit(change.Limit),
			Removed: change.Removed, ChangedAt: call.At.UTC().Format(milliseconds),
		}
		if change.Removed {
			row.Limit = nil
		}
		// The write lock is held: nobody else takes the same revision.
		if err := u.gorm.Model(&quotaRow{}).Select("coalesce(max(revision), 0) + 1").Scan(&row.Revision).Error; err != nil {
			return fmt.Errorf("change a quota: %w", err)
		}
		if err := u.gorm.Clauses(clause.OnConflict{
			Columns:   []clause.Column{{Name: "policy"}, {Name: "key"}},
			DoUpdates: clause.AssignmentColumns([]string{"limit", "removed", "changed_at", "revision"}),
		}).Create(&row).Error; err != nil {
			return fmt.Errorf("change a quota: %w", err)
		}
		return u.Append(ctx, []domain.Call{call})
	})
}

// Quotas implements [domain.Quotas].
func (s *Store) Quotas(ctx context.Context, policy, after string, limit int) ([]domain.Quota, error) {
	changes, err := s.quotas(ctx, limit, func(db *gorm.DB) *gorm.DB {
		return db.Where("policy = ? AND key > ? AND removed = 0", policy, after).Order("key")
	})
	quotas := make([]domain.Quota, len(changes))
	for i := range changes {
		quotas[i] = changes[i].Quota
	}
	return quotas, err
}

// QuotaChanges implements [domain.Quotas].
func (s *Store) QuotaChanges(ctx context.Context, after int64, limit int) ([]domain.QuotaChange, error) {
	return s.quotas(ctx, limit, func(db *gorm.DB) *gorm.DB { return db.Where("revision > ?", after).Order("revision") })
}

func (s *Store) quotas(ctx context.Context, limit int, choose func(*gorm.DB) *gorm.DB) ([]domain.QuotaChange, error) {
	s.wal.reading.RLock()
	defer s.wal.reading.RUnlock()
	var rows []quotaRow
	if err := choose(s.reads.WithContext(ctx)).Limit(limit).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read quotas: %w", err)
	}
	changes := make([]domain.QuotaChange, len(rows))
	for i := range rows {
		changes[i] = rows[i].change()
	}
	return changes, nil
}
