package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Windows implements [domain.WindowLister]. Each call goes through all windows, as
// they are in no order.
func (s *Store) Windows(ctx context.Context, after domain.LedgerWindow, limit int) ([]domain.LedgerWindow, error) {
	found := []domain.LedgerWindow{}
	err := s.locked(ctx, func(*unit) error {
		first := []*window{} // those wanted, and at times as many more
		cut := func() {
			slices.SortFunc(first, func(a, b *window) int { return a.id.Compare(b.id) })
			first = first[:min(limit, len(first))]
		}
		for id, w := range s.windows {
			if id.Compare(after.ID()) <= 0 {
				continue
			}
			if first = append(first, w); len(first)/2 >= limit {
				cut()
			}
		}
		cut()
		for _, w := range first {
			found = append(found, domain.LedgerWindow{
				Policy: w.id.Policy, Key: w.id.Key, Schedule: w.id.Schedule, Start: time.Unix(w.id.Start, 0).UTC(), Expires: w.expires,
				Tally: domain.Tally{Count: w.count, Refused: w.refused},
			})
		}
		return nil
	})
	return found, err
}
