package memstore

import (
	"context"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Append implements [domain.AuditLog].
func (u *unit) Append(ctx context.Context, calls []domain.Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, call := range calls { // a copy: the slice is the caller's
		u.lastID++
		call.ID = u.lastID
		u.calls = append(u.calls, call)
	}
	return nil
}

// trim lets the oldest calls go. The array behind the slice is left for a new one
// once it is used up, so that this costs little and at most twice the room.
func (s *Store) trim() {
	if over := len(s.calls) - s.options.MaxCalls; over > 0 {
		clear(s.calls[:over])
		s.calls = s.calls[over:]
	}
}

// Calls implements [domain.AuditLog].
func (u *unit) Calls(ctx context.Context, query domain.CallQuery) ([]domain.Call, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// IDs have no gaps, so that the bounds are places. Both stay within the log.
	first := u.lastID - int64(len(u.calls)) + 1
	calls := u.calls
	if query.Before > 0 {
		calls = calls[:min(max(query.Before-first, 0), int64(len(calls)))]
	}
	if query.After >= first {
		calls = calls[min(query.After-first+1, int64(len(calls))):]
	}
	found := []domain.Call{}
	for i := range calls {
		if len(found) == query.Limit {
			break
		}
		call := &calls[i]
		if !query.OldestFirst {
			call = &calls[len(calls)-1-i]
		}
		if query.Matches(call) {
			found = append(found, *call)
		}
	}
	return found, nil
}

// Append implements [domain.AuditLog] in a turn of its own.
func (s *Store) Append(ctx context.Context, calls []domain.Call) error {
	return s.locked(ctx, func(u *unit) error { return u.Append(ctx, calls) })
}

// Calls implements [domain.AuditLog] in a turn of its own.
func (s *Store) Calls(ctx context.Context, query domain.CallQuery) (calls []domain.Call, err error) {
	err = s.locked(ctx, func(u *unit) error { calls, err = u.Calls(ctx, query); return err })
	return calls, err
}
