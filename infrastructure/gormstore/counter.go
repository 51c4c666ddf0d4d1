package gormstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// fill reads the tallies of the ledger's windows.
func fill(ctx context.Context, ledger *domain.Ledger, tallies *statement, r *runner) error {
	err := tallies.run(ctx, r, len(ledger.Windows), func(values []any, i int) []any {
		w := &ledger.Windows[i]
		return append(values, i, w.Policy, w.Key, w.Schedule, r.second(w.Start))
	}, func(rows *sql.Rows) error {
		var i int
		var tally domain.Tally
		if err := rows.Scan(&i, &tally.Count, &tally.Refused); err != nil {
			return err
		}
		ledger.Windows[i].Tally = tally
		return nil
	})
	if err != nil {
		return fmt.Errorf("read %d windows: %w", len(ledger.Windows), err)
	}
	return nil
}

// Take implements [domain.Counter] inside a unit of work: under the write lock it
// reads the windows, lets the domain decide, and writes those that changed.
func (u *unit) Take(ctx context.Context, takes []domain.Take) ([]domain.Taken, error) {
	ledger := domain.NewLedger(takes)
	if err := fill(ctx, ledger, &u.store.tallies, u.runner); err != nil {
		return nil, err
	}
	taken := ledger.Settle(takes)

	changed := slices.DeleteFunc(ledger.Windows, func(w domain.LedgerWindow) bool { return !w.Changed })
	err := u.store.writes.upsertWindows.run(ctx, u.runner, len(changed), func(values []any, i int) []any {
		w := &changed[i]
		return append(values, w.Policy, w.Key, w.Schedule, u.second(w.Start), w.Tally.Count, w.Tally.Refused, u.second(w.Expires))
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("write %d windows: %w", len(changed), err)
	}
	return taken, nil
}

// Look implements [domain.Counter] inside a unit of work.
func (u *unit) Look(ctx context.Context, slots []domain.Slot) ([]domain.Tally, error) {
	return look(ctx, slots, &u.store.tallies, u.runner)
}

func look(ctx context.Context, slots []domain.Slot, tallies *statement, r *runner) ([]domain.Tally, error) {
	ledger := domain.NewLookLedger(slots)
	if err := fill(ctx, ledger, tallies, r); err != nil {
		return nil, err
	}
	return ledger.Look(slots), nil
}

// Reset implements [domain.Counter] inside a unit of work.
func (u *unit) Reset(ctx context.Context, policy, key string) error {
	err := u.gorm.WithContext(ctx).Where("policy = ? AND key = ?", policy, key).Delete(&windowRow{}).Error
	if err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	return nil
}

// Take implements [domain.Counter] in a unit of work of its own.
func (s *Store) Take(ctx context.Context, takes []domain.Take) (taken []domain.Taken, err error) {
	err = s.Do(ctx, func(counter domain.Counter, _ domain.AuditLog) error {
		taken, err = counter.Take(ctx, takes)
		return err
	})
	return taken, err
}

// Look implements [domain.Counter] with the connections that read, so that it
// never waits for a writer.
func (s *Store) Look(ctx context.Context, slots []domain.Slot) ([]domain.Tally, error) {
	s.wal.reading.RLock()
	defer s.wal.reading.RUnlock()
	return look(ctx, slots, &s.looks, new(runner))
}

// Reset implements [domain.Counter] in a unit of work of its own.
func (s *Store) Reset(ctx context.Context, policy, key string) error {
	return s.Do(ctx, func(counter domain.Counter, _ domain.AuditLog) error {
		return counter.Reset(ctx, policy, key)
	})
}
