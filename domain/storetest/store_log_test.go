package storetest_test

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func (h *handle) Totals(ctx context.Context, query domain.TotalQuery, add func(domain.Total)) error {
	return locked(ctx, h, func(unit) error {
		sums := h.sums
		if sums == nil {
			sums = addUp
		}
		for _, total := range sums(h, query) {
			add(total)
		}
		return nil
	})
}

// addUp makes a piece of every hit.
func addUp(h *handle, query domain.TotalQuery) (sums []domain.Total) {
	for _, call := range h.state.calls {
		if total, is := h.one(query, call); is {
			sums = append(sums, total)
		}
	}
	return sums
}

// one is the sum over one call, if the query asks for it.
func (m *memory) one(query domain.TotalQuery, call domain.Call) (total domain.Total, is bool) {
	if is = query.Matches(&call); m.total != nil {
		is = m.total(query, &call)
	}
	if !is {
		return total, false
	}
	if total = query.Total(&call); m.sum != nil {
		m.sum(query, &total)
	}
	return total, true
}

func (h *handle) PruneCalls(ctx context.Context, prune domain.Prune) (removed int, more bool, err error) {
	err = locked(ctx, h, func(unit) error {
		if h.prune != nil {
			h.prune(h.memory, &prune)
		}
		gone := map[int64]bool{}
		var of []domain.Call
		for _, call := range h.state.calls {
			if !call.Kind.Ages() && !h.agesAll {
				continue
			}
			if call.Policy == prune.Policy || h.alike != nil && h.alike(call.Policy, prune.Policy) {
				of = append(of, call)
			}
		}
		if h.order != nil {
			h.order(of)
		}
		end := 0 // those before it go
		for i, call := range of {
			goes := prune.Old(&call) || prune.Most > 0 && int64(i) < int64(len(of))-prune.Most
			if h.goes != nil {
				goes = h.goes(call, goes)
			}
			misdated := prune.Misdated(&call)
			if h.astray != nil {
				misdated = h.astray(call, misdated)
			}
			if goes {
				end = i + 1
			} else if !misdated {
				break
			}
		}
		for _, call := range of[:end] {
			if more = len(gone) == prune.Limit; more {
				break
			}
			gone[call.ID] = true
			told := domain.PrunedCalls{Policy: call.Policy, Through: call.ID, Removed: h.state.pruned[call.Policy].Removed + 1, At: prune.At}
			if h.pruned != nil {
				h.pruned(&told)
			}
			h.state.pruned[told.Policy] = told
		}
		kept := slices.DeleteFunc(slices.Clone(h.state.calls), func(c domain.Call) bool { return gone[c.ID] })
		if h.pruning != nil {
			h.pruning(h)
		}
		h.state.calls, removed, more = kept, len(gone), more && !h.curt
		return nil
	})
	return removed, more, err
}

func (h *handle) PrunedCalls(ctx context.Context) (pruned []domain.PrunedCalls, err error) {
	err = locked(ctx, h, func(unit) error { pruned = slices.Collect(maps.Values(h.state.pruned)); return nil })
	return pruned, err
}

func (h *handle) Windows(ctx context.Context, after domain.LedgerWindow, limit int) (windows []domain.LedgerWindow, err error) {
	err = locked(ctx, h, func(unit) error {
		for id, row := range h.state.windows {
			windows = append(windows, domain.LedgerWindow{
				Policy: id.Policy, Key: id.Key, Schedule: id.Schedule, Start: time.Unix(id.Start, 0).UTC(), Expires: row.expires, Tally: row.tally,
			})
		}
		slices.SortFunc(windows, byID)
		if h.windows != nil {
			windows = h.windows(after, limit, windows)
			return nil
		}
		windows = beyond(after, windows)
		windows = windows[:min(limit, len(windows))]
		return nil
	})
	return windows, err
}

func byID(a, b domain.LedgerWindow) int { return a.ID().Compare(b.ID()) }

// beyond is the windows behind after.
func beyond(after domain.LedgerWindow, windows []domain.LedgerWindow) []domain.LedgerWindow {
	return slices.DeleteFunc(windows, func(w domain.LedgerWindow) bool { return byID(w, after) <= 0 })
}
