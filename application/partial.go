package application

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// inForce is what the log says of the policies that were in force in a span.
type inForce struct {
	partial bool     // one of them logged a part of its hits, or none
	shadow  []string // those that were in shadow for some of the time, sorted
}

// wasInForce goes back through what came into force until the span's beginning, and
// to what was in force then. Together with the calls of the span and prunedInPart it says
// whether the log may lack hits that the query asks for.
func (h *History) wasInForce(ctx context.Context, query *UsageQuery) (was inForce, err error) {
	known := map[string]bool{} // policies of which it is known what was in force at the beginning
	changes := domain.CallQuery{Kinds: aboutRules, Policy: query.Policy, To: query.To}
	for page, err := range h.pages(ctx, changes) {
		if err != nil {
			return was, err
		}
		for i := range page {
			call := &page[i]
			if known[call.Policy] {
				continue
			}
			was.partial = was.partial || call.Coverage != ""
			if call.Shadow {
				was.shadow = append(was.shadow, call.Policy)
			}
			known[call.Policy] = call.At.Before(query.From)
		}
	}
	slices.Sort(was.shadow)
	was.shadow = slices.Compact(was.shadow)
	return was, nil
}

// prunedInPart reports whether hits of a policy, or of all if it is "", may have been
// removed that came at a time or later: the oldest that is left came after it.
func (h *History) prunedInPart(ctx context.Context, policy string, from time.Time) (bool, error) {
	log, ok := h.log.(domain.CallPruner)
	if !ok {
		return false, nil
	}
	pruned, err := log.PrunedCalls(ctx)
	if err != nil {
		return false, fmt.Errorf("read what was pruned: %w: %w", domain.ErrUnavailable, err)
	}
	for _, p := range pruned {
		if policy != "" && policy != p.Policy || !from.Before(p.At) {
			continue
		}
		oldest, err := h.read(ctx, domain.CallQuery{Policy: p.Policy, Kinds: []domain.CallKind{domain.CallHit}, OldestFirst: true, Limit: 1})
		if err != nil {
			return false, err
		}
		if len(oldest) == 0 || oldest[0].At.After(from) {
			return true, nil
		}
	}
	return false, nil
}
