package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// ChangeQuota implements [domain.Quotas].
func (s *Store) ChangeQuota(ctx context.Context, change domain.QuotaChange, call domain.Call) error {
	return s.locked(ctx, func(u *unit) error {
		if err := u.Append(ctx, []domain.Call{call}); err != nil {
			return err
		}
		change.Revision = 1
		if n := len(s.quotas); n > 0 { // the last is never removed, only replaced
			change.Revision = s.quotas[n-1].Revision + 1
		}
		s.quotas = slices.DeleteFunc(s.quotas, func(c domain.QuotaChange) bool { return c.Policy == change.Policy && c.Key == change.Key })
		s.quotas = append(s.quotas, change)
		return nil
	})
}

// Quotas implements [domain.Quotas].
func (s *Store) Quotas(ctx context.Context, policy, after string, limit int) ([]domain.Quota, error) {
	quotas := []domain.Quota{}
	err := s.locked(ctx, func(u *unit) error {
		for _, c := range s.quotas {
			if c.Policy == policy && c.Key > after && !c.Removed {
				quotas = append(quotas, c.Quota)
			}
		}
		return nil
	})
	slices.SortFunc(quotas, func(a, b domain.Quota) int { return cmp.Compare(a.Key, b.Key) })
	return quotas[:min(limit, len(quotas))], err
}

// QuotaChanges implements [domain.Quotas].
func (s *Store) QuotaChanges(ctx context.Context, after int64, limit int) (changes []domain.QuotaChange, err error) {
	err = s.locked(ctx, func(u *unit) error {
		from, _ := slices.BinarySearchFunc(s.quotas, after+1, func(c domain.QuotaChange, revision int64) int { return cmp.Compare(c.Revision, revision) })
		changes = slices.Clone(s.quotas[from:min(from+limit, len(s.quotas))])
		return nil
	})
	return changes, err
}
