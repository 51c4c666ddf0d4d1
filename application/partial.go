package application

import (
	"context"
	"fmt"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// lacks reports whether the log may lack hits that the query asks for, as far as that
// does not show in the calls that it has: a policy that was in force logged a part of
// its hits, or none, or hits of the span have been removed because they are old.
func (h *History) lacks(ctx context.Context, query *UsageQuery) (bool, error) {
	part, err := h.loggedInPart(ctx, query)
	if err != nil || part {
		return part, err
	}
	return h.prunedInPart(ctx, query)
}

// loggedInPart goes back through what came into force until the span's beginning, and
// to what was in force then.
func (h *History) loggedInPart(ctx context.Context, query *UsageQuery) (bool, error) {
	known := map[string]bool{} // policies of which it is known what was in force at the beginning
	changes := domain.CallQuery{Kinds: aboutRules, Policy: query.Policy, To: query.To, Limit: MaxPage}
	for {
		page, err := h.read(ctx, changes)
		if err != nil {
			return false, err
		}
		for i := range page {
			call := &page[i]
			if call.Coverage != "" && !known[call.Policy] {
				return true, nil
			}
			known[call.Policy] = known[call.Policy] || call.At.Before(query.From)
		}
		if len(page) < MaxPage {
			return false, nil
		}
		changes.Before = page[len(page)-1].ID
	}
}

// prunedInPart reports whether hits of the span may have been removed: the oldest that
// is left of a policy is in it.
func (h *History) prunedInPart(ctx context.Context, query *UsageQuery) (bool, error) {
	log, ok := h.log.(domain.CallPruner)
	if !ok {
		return false, nil
	}
	pruned, err := log.PrunedCalls(ctx)
	if err != nil {
		return false, fmt.Errorf("read what was pruned: %w: %w", domain.ErrUnavailable, err)
	}
	for _, p := range pruned {
		if query.Policy != "" && query.Policy != p.Policy || !query.From.Before(p.At) {
			continue
		}
		oldest, err := h.read(ctx, domain.CallQuery{Policy: p.Policy, Kinds: []domain.CallKind{domain.CallHit}, OldestFirst: true, Limit: 1})
		if err != nil {
			return false, err
		}
		if len(oldest) == 0 || oldest[0].At.After(query.From) {
			return true, nil
		}
	}
	return false, nil
}
