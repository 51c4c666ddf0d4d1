package memstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// PruneCalls implements [domain.CallPruner]. It looks at the newest calls up to
// prune.Most of the policy and at the oldest up to the first that stays for its time, and
// moves those of other policies that it passes.
func (s *Store) PruneCalls(ctx context.Context, prune domain.Prune) (removed int, more bool, err error) {
	err = s.locked(ctx, func(*unit) error {
		goes, end := s.beyond(prune.Policy, prune.Most), 0 // those before goes do
		for ; end < len(s.calls); end++ {
			call := &s.calls[end]
			if !ages(call, prune.Policy) {
				continue
			}
			if end >= goes {
				goes = s.behindOld(end, &prune)
			}
			if end >= goes {
				break
			}
			if removed == prune.Limit {
				more = true
				break
			}
			s.gone(call, prune.At)
			removed++
		}
		if removed > 0 {
			s.compact(end, prune.Policy)
		}
		return nil
	})
	return removed, more, err
}

// beyond is the place before which calls of the policy are not among its newest most.
func (s *Store) beyond(policy string, most int64) int {
	if most <= 0 {
		return 0
	}
	for i := len(s.calls) - 1; i >= 0; i-- {
		if !ages(&s.calls[i], policy) {
			continue
		}
		if most--; most == 0 {
			return i
		}
	}
	return 0
}

// behindOld is the place behind the first call from i on that is not misdated, if it is old, else i.
func (s *Store) behindOld(i int, prune *domain.Prune) int {
	for at := i; at < len(s.calls); at++ {
		switch call := &s.calls[at]; {
		case !ages(call, prune.Policy):
		case prune.Old(call):
			return at + 1
		case !prune.Misdated(call):
			return i
		}
	}
	return i
}

// ages reports whether the call is one of the policy that prunes remove.
func ages(call *domain.Call, policy string) bool { return call.Policy == policy && call.Kind.Ages() }

// compact removes all calls of the policy that age and are before end. The others there move
// up, so that it costs nothing how many are behind.
func (s *Store) compact(end int, policy string) {
	first := end
	for i := end - 1; i >= 0; i-- {
		if !ages(&s.calls[i], policy) {
			first--
			s.calls[first] = s.calls[i]
		}
	}
	clear(s.calls[:first])
	s.calls = s.calls[first:]
}

// gone remembers that the call, the oldest of its policy, is removed at that time.
func (s *Store) gone(call *domain.Call, at time.Time) {
	s.pruned[call.Policy] = domain.PrunedCalls{Policy: call.Policy, Through: call.ID, Removed: s.pruned[call.Policy].Removed + 1, At: at}
}

// PrunedCalls implements [domain.CallPruner]. Calls that a full log let go are among
// them, at the time of the newest call then.
func (s *Store) PrunedCalls(ctx context.Context) (pruned []domain.PrunedCalls, err error) {
	err = s.locked(ctx, func(*unit) error { pruned = slices.Collect(maps.Values(s.pruned)); return nil })
	return pruned, err
}
