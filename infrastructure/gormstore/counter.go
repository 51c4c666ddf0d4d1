package gormstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// window is a window that takes or slots refer to.
type window struct {
	id   domain.WindowID
	slot *domain.Slot // nil if it only weighs in as a previous one
	read domain.Tally // as it was in the store
}

// windowsOf lists the windows that slots refer to, each once, beside the ledger
// that holds their tallies.
type windowsOf struct {
	ledger domain.Ledger
	list   []window
	index  map[domain.WindowID]int
}

func newWindows(size int) *windowsOf {
	return &windowsOf{ledger: make(domain.Ledger, size), list: make([]window, 0, size), index: make(map[domain.WindowID]int, size)}
}

func (w *windowsOf) add(slot *domain.Slot) {
	w.put(slot.ID(), slot)
	if id, weighs := slot.PreviousID(); weighs {
		w.put(id, nil)
	}
}

func (w *windowsOf) put(id domain.WindowID, slot *domain.Slot) {
	at, known := w.index[id]
	if !known {
		w.index[id] = len(w.list)
		w.list = append(w.list, window{id: id, slot: slot})
	} else if slot != nil {
		w.list[at].slot = slot
	}
}

// fill reads the windows from the store.
func (w *windowsOf) fill(ctx context.Context, tallies *statement, tx *sql.Tx) error {
	var texts timeTexts
	return tallies.run(ctx, tx, len(w.list), func(values []any, i int) []any {
		id := &w.list[i].id
		return append(values, int64(i), id.Policy, id.Key, texts.second(id.Start))
	}, func(rows *sql.Rows) error {
		var n int
		var tally domain.Tally
		if err := rows.Scan(&n, &tally.Count, &tally.Refused); err != nil {
			return err
		}
		w.list[n].read = tally
		w.ledger[w.list[n].id] = tally
		return nil
	})
}

// changed lists the windows whose tally differs from what was read.
func (w *windowsOf) changed() []window {
	changed := w.list[:0]
	for _, window := range w.list {
		if window.slot != nil && w.ledger[window.id] != window.read {
			changed = append(changed, window)
		}
	}
	return changed
}

// Take implements [domain.Counter] inside a unit of work: under the write lock it
// reads the windows, lets the domain decide, and writes those that changed.
func (u *unit) Take(ctx context.Context, takes []domain.Take) ([]domain.Taken, error) {
	windows := newWindows(len(takes))
	for i := range takes {
		for j := range takes[i].Slots {
			windows.add(&takes[i].Slots[j])
		}
	}
	if err := windows.fill(ctx, &u.store.tallies, u.tx); err != nil {
		return nil, fmt.Errorf("read %d windows: %w", len(windows.list), err)
	}
	taken := domain.Settle(windows.ledger, takes)

	changed := windows.changed()
	var starts, expiries timeTexts
	err := u.store.writes.upsertWindows.run(ctx, u.tx, len(changed), func(values []any, i int) []any {
		w := &changed[i]
		tally := windows.ledger[w.id]
		return append(values, w.id.Policy, w.id.Key, starts.second(w.id.Start), tally.Count, tally.Refused,
			expiries.second(w.slot.Expires.Unix()))
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("write %d windows: %w", len(changed), err)
	}
	return taken, nil
}

// Look implements [domain.Counter] inside a unit of work.
func (u *unit) Look(ctx context.Context, slots []domain.Slot) ([]domain.Tally, error) {
	return look(ctx, slots, &u.store.tallies, u.tx)
}

// Reset implements [domain.Counter] inside a unit of work.
func (u *unit) Reset(ctx context.Context, policy, key string) error {
	err := u.gorm.WithContext(ctx).Where("policy = ? AND key = ?", policy, key).Delete(&windowRow{}).Error
	if err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	return nil
}

func look(ctx context.Context, slots []domain.Slot, tallies *statement, tx *sql.Tx) ([]domain.Tally, error) {
	windows := newWindows(len(slots))
	for i := range slots {
		windows.add(&slots[i])
	}
	if err := windows.fill(ctx, tallies, tx); err != nil {
		return nil, fmt.Errorf("read %d windows: %w", len(windows.list), err)
	}
	looked := make([]domain.Tally, len(slots))
	for i := range slots {
		looked[i] = windows.ledger.Look(slots[i])
	}
	return looked, nil
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
	return look(ctx, slots, &s.looks, nil)
}

// Reset implements [domain.Counter] in a unit of work of its own.
func (s *Store) Reset(ctx context.Context, policy, key string) error {
	return s.Do(ctx, func(counter domain.Counter, _ domain.AuditLog) error {
		return counter.Reset(ctx, policy, key)
	})
}
