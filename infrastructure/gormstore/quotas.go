package gormstore

import (
	"context"
	"fmt"
	"time"

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

// changeQuota writes the change and gives it a revision. The caller sees to it that
// nobody else does so at the same time.
func changeQuota(tx *gorm.DB, change domain.QuotaChange, at time.Time) error {
	row := quotaRow{
		Policy: change.Policy, Key: change.Key, Limit: nullLimit(change.Limit),
		Removed: change.Removed, ChangedAt: at.UTC().Format(milliseconds),
	}
	if change.Removed {
		row.Limit = nil
	}
	if err := tx.Model(&quotaRow{}).Select("coalesce(max(revision), 0) + 1").Scan(&row.Revision).Error; err != nil {
		return fmt.Errorf("change a quota: %w", err)
	}
	if err := tx.Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "policy"}, {Name: "key"}},
		DoUpdates: clause.AssignmentColumns([]string{"limit", "removed", "changed_at", "revision"}),
	}).Create(&row).Error; err != nil {
		return fmt.Errorf("change a quota: %w", err)
	}
	return nil
}

func quotas(db *gorm.DB, policy, after string, limit int) ([]domain.Quota, error) {
	changes, err := findQuotas(db.Where("policy = ? AND key > ? AND removed = ?", policy, after, false).Order("key"), limit)
	quotas := make([]domain.Quota, len(changes))
	for i := range changes {
		quotas[i] = changes[i].Quota
	}
	return quotas, err
}

func quotaChanges(db *gorm.DB, after int64, limit int) ([]domain.QuotaChange, error) {
	return findQuotas(db.Where("revision > ?", after).Order("revision"), limit)
}

func findQuotas(db *gorm.DB, limit int) ([]domain.QuotaChange, error) {
	var rows []quotaRow
	if err := db.Limit(limit).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read quotas: %w", err)
	}
	changes := make([]domain.QuotaChange, len(rows))
	for i := range rows {
		changes[i] = rows[i].change()
	}
	return changes, nil
}

// ChangeQuota implements [domain.Quotas].
func (s *Store) ChangeQuota(ctx context.Context, change domain.QuotaChange, call domain.Call) error {
	return s.transact(ctx, func(u *unit) error {
		if err := changeQuota(u.gorm, change, call.At); err != nil { // the write lock is held
			return err
		}
		return u.Append(ctx, []domain.Call{call})
	})
}

// Quotas implements [domain.Quotas].
func (s *Store) Quotas(ctx context.Context, policy, after string, limit int) ([]domain.Quota, error) {
	s.wal.reading.RLock()
	defer s.wal.reading.RUnlock()
	return quotas(s.reads.WithContext(ctx), policy, after, limit)
}

// QuotaChanges implements [domain.Quotas].
func (s *Store) QuotaChanges(ctx context.Context, after int64, limit int) ([]domain.QuotaChange, error) {
	s.wal.reading.RLock()
	defer s.wal.reading.RUnlock()
	return quotaChanges(s.reads.WithContext(ctx), after, limit)
}
