package application

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// unchecked are the hits that were allowed because the store could not decide, by
// policies that are open to that. They are logged once it is back: as calls of their
// own kind, which no counter holds, all of them unless the log has nothing of the policy. The memory is bounded: hits beyond are logged
// without their keys, and each unit of theirs as a hit.
type unchecked struct {
	max  int
	wake func() // called when there is one

	size  atomic.Int64 // of calls, to be read without the lock
	mu    sync.Mutex
	calls map[uncheckedID]*domain.Call
}

type uncheckedID struct {
	policy, key string
	cost        int64
}

func newUnchecked(most int, wake func()) *unchecked {
	return &unchecked{max: most, wake: wake, calls: map[uncheckedID]*domain.Call{}}
}

func (u *unchecked) note(hit *domain.Hit, policies []domain.PolicyDecision, at time.Time, logging *logging) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range policies {
		p := &policies[i]
		if logging.off(p.Policy) {
			continue
		}
		id := uncheckedID{p.Policy, hit.Key, hit.Cost}
		if u.calls[id] == nil && len(u.calls) >= u.max {
			id.key, id.cost = "", 1 // as many hits of cost 1
		}
		call := u.calls[id]
		if call == nil {
			call = &domain.Call{
				Kind: domain.CallUnchecked, At: at, Policy: id.policy, Key: id.key, Cost: id.cost, Allowed: true, Shadow: p.Shadow,
				Origin: hit.Origin,
			}
			u.calls[id] = call
		}
		call.Hits += hit.Cost / id.cost
	}
	if u.size.Load() == 0 && len(u.calls) > 0 {
		u.wake()
	}
	u.size.Store(int64(len(u.calls)))
}

// drain hands over calls, so many at most.
func (u *unchecked) drain(most int) (calls []domain.Call) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, call := range u.calls {
		if len(calls) == most {
			break
		}
		calls = append(calls, *call)
		delete(u.calls, id)
	}
	u.size.Store(int64(len(u.calls)))
	return calls
}

// restore takes back calls that could not be logged.
func (u *unchecked) restore(calls []domain.Call) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range calls {
		id := uncheckedID{calls[i].Policy, calls[i].Key, calls[i].Cost}
		if known := u.calls[id]; known != nil {
			known.Hits += calls[i].Hits
			continue
		}
		u.calls[id] = &calls[i]
	}
	u.size.Store(int64(len(u.calls)))
}

// undecided is what becomes of a hit that the store did not decide.
func (l *Limiter) undecided(rules *ruleSet, d domain.Decision, hit *domain.Hit, err error) (domain.Decision, error) {
	if hit.Cost == 0 || !errors.Is(err, domain.ErrUnavailable) && !errors.Is(err, domain.ErrOverloaded) {
		return domain.Decision{}, err
	}
	open := !slices.ContainsFunc(hit.Policies, func(name string) bool {
		policy := rules.byName[name]
		return !policy.FailOpen && !policy.Shadow
	})
	l.committer.breaker.answered(open)
	if !open {
		return domain.Decision{}, err
	}
	d.Allowed, d.Unchecked = true, true
	for i := range d.Policies {
		d.Policies[i].Tally = domain.Tally{} // what memory may have had
	}
	l.committer.unchecked.note(hit, d.Policies, d.At, rules.logging)
	return d, nil
}
