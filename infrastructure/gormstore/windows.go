package gormstore

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Windows implements [domain.WindowLister].
func (s *Store) Windows(ctx context.Context, after domain.LedgerWindow, limit int) ([]domain.LedgerWindow, error) {
	return windowsAfter(s.shortly(ctx), after, after.Start.UTC().Format(seconds), limit)
}

// windowsAfter reads windows in the order of the primary key; start is that of after
// as the engine compares it.
func windowsAfter(read reads, after domain.LedgerWindow, start any, limit int) ([]domain.LedgerWindow, error) {
	var rows []windowRow
	err := read(func(db *gorm.DB) error {
		if after.Policy != "" {
			db = db.Where("(policy, key, schedule, window_start) > (?, ?, ?, ?)", after.Policy, after.Key, after.Schedule, start)
		}
		return db.Order("policy, key, schedule, window_start").Limit(limit).Find(&rows).Error
	})
	if err != nil {
		return nil, fmt.Errorf("read windows: %w", err)
	}
	windows := make([]domain.LedgerWindow, len(rows))
	for i, row := range rows {
		windows[i] = domain.LedgerWindow{
			Policy: row.Policy, Key: row.Key, Schedule: row.Schedule, Start: time.Time(row.WindowStart), Expires: time.Time(row.ExpiresAt),
			Tally: domain.Tally{Count: row.Count, Refused: row.Refused},
		}
	}
	return windows, nil
}
