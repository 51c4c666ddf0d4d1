package memstore

import (
	"context"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Totals implements [domain.Totaler]. It goes through the whole log in one turn; add
// is called after it.
func (s *Store) Totals(ctx context.Context, query domain.TotalQuery, add func(domain.Total)) error {
	type group struct {
		name   string
		minute int64 // of the Unix time
	}
	sums := map[group]*domain.Total{}
	err := s.locked(ctx, func(u *unit) error {
		for i := range s.calls {
			if !query.Matches(&s.calls[i]) {
				continue
			}
			total := query.Total(&s.calls[i])
			of := group{name: total.Group}
			if query.By.IsTime() {
				of.minute = total.At.Truncate(time.Minute).Unix()
			}
			if sum := sums[of]; sum != nil {
				sum.Add(total)
			} else {
				sums[of] = &total
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, sum := range sums {
		add(*sum)
	}
	return nil
}
