package memstore

import (
	"context"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// unit is the store during a turn. It remembers how to take back what it does.
type unit struct {
	*Store
	undo   []func() // of windows, to be run from the last to the first
	logged int      // how many calls there were when it began
}

func (u *unit) rollBack() {
	for i := len(u.undo) - 1; i >= 0; i-- {
		u.undo[i]()
	}
	clear(u.calls[u.logged:])
	u.lastID -= int64(len(u.calls) - u.logged)
	u.calls = u.calls[:u.logged]
}

// Take implements [domain.Counter]: read the windows, let the ledger decide, write
// those that changed. It checks what can fail before it writes.
func (u *unit) Take(ctx context.Context, takes []domain.Take) ([]domain.Taken, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ledger := domain.NewLedger(takes)
	u.fill(ledger)
	taken := ledger.Settle(takes)
	fresh := 0
	for i := range ledger.Windows {
		if w := &ledger.Windows[i]; w.Changed && u.windows[w.ID()] == nil {
			fresh++
		}
	}
	if fresh > 0 && len(u.windows)+fresh > u.options.MaxWindows {
		return nil, ErrFull
	}
	for i := range ledger.Windows {
		if w := &ledger.Windows[i]; w.Changed {
			u.write(w)
		}
	}
	return taken, nil
}

func (u *unit) fill(ledger *domain.Ledger) {
	for i := range ledger.Windows {
		if w := u.windows[ledger.Windows[i].ID()]; w != nil {
			ledger.Windows[i].Tally = domain.Tally{Count: w.count, Refused: w.refused}
		}
	}
}

func (u *unit) write(row *domain.LedgerWindow) {
	if w := u.windows[row.ID()]; w != nil {
		count, refused := w.count, w.refused
		u.undo = append(u.undo, func() { w.count, w.refused = count, refused })
		w.count, w.refused = row.Tally.Count, row.Tally.Refused
		return
	}
	w := &window{id: row.ID(), count: row.Tally.Count, refused: row.Tally.Refused, expires: row.Expires}
	u.undo = append(u.undo, func() { u.remove(w) })
	u.add(w)
}

// Look implements [domain.Counter].
func (u *unit) Look(ctx context.Context, slots []domain.Slot) ([]domain.Tally, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ledger := domain.NewLookLedger(slots)
	u.fill(ledger)
	return ledger.Look(slots), nil
}

// Reset implements [domain.Counter].
func (u *unit) Reset(ctx context.Context, policy, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, w := range u.owners[owner{policy, key}] {
		u.remove(w)
		u.undo = append(u.undo, func() { u.add(w) })
	}
	return nil
}

// Take implements [domain.Counter] in a turn of its own.
func (s *Store) Take(ctx context.Context, takes []domain.Take) (taken []domain.Taken, err error) {
	err = s.locked(ctx, func(u *unit) error { taken, err = u.Take(ctx, takes); return err })
	return taken, err
}

// Look implements [domain.Counter] in a turn of its own.
func (s *Store) Look(ctx context.Context, slots []domain.Slot) (tallies []domain.Tally, err error) {
	err = s.locked(ctx, func(u *unit) error { tallies, err = u.Look(ctx, slots); return err })
	return tallies, err
}

// Reset implements [domain.Counter] in a turn of its own.
func (s *Store) Reset(ctx context.Context, policy, key string) error {
	return s.locked(ctx, func(u *unit) error { return u.Reset(ctx, policy, key) })
}
