package application

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

const (
	// near is how far from the time that is asked about a hit may be to be what is meant.
	near = time.Second
	// nearby is how far from it refusals are looked for if there is none.
	nearby = 24 * time.Hour
	// someCalls is how many calls are looked at to choose from.
	someCalls = 200
	// otherPages is how many pages of what is no hit are read before a key's own are
	// asked for.
	otherPages = 10
)

// aboutQuotas are the kinds of calls that say what quotas are.
var aboutQuotas = []domain.CallKind{domain.CallQuotaSet, domain.CallQuotaUnset}

// span is [from, to), the calls of which may be what is meant.
func (e *explaining) span() (from, to time.Time) {
	if e.Minute {
		return e.At, e.At.Add(time.Minute)
	}
	return e.At.Add(-near), after(e.At.Add(near))
}

// choosePolicy takes the policy of the refusal nearest to the time, else of the nearest
// hit. What a policy in shadow would have refused comes after all that was refused.
func (e *explaining) choosePolicy(ctx context.Context) error {
	e.Policy = domain.DefaultPolicy
	for _, outcome := range []domain.CallOutcome{domain.OutcomeRefused, domain.OutcomeAllowed} {
		var calls []domain.Call
		for _, search := range e.aroundAt() {
			search.Key, search.Outcome, search.Limit = e.Key, outcome, someCalls
			page, err := e.history.read(ctx, search)
			if err != nil {
				return err
			}
			calls = append(calls, page...)
		}
		if len(calls) == 0 {
			continue
		}
		e.Policy = slices.MinFunc(calls, func(a, b domain.Call) int {
			if a.Shadow != b.Shadow && outcome == domain.OutcomeRefused {
				return map[bool]int{true: 1, false: -1}[a.Shadow]
			}
			return cmp.Or(cmp.Compare(e.distance(&a), e.distance(&b)), cmp.Compare(b.ID, a.ID))
		}).Policy
		return nil
	}
	return nil
}

// aroundAt are the searches whose calls are nearest to the time: those before it, and
// those after.
func (e *explaining) aroundAt() []domain.CallQuery {
	at := after(e.At)
	if e.Minute {
		at = e.At.Add(time.Minute)
	}
	return []domain.CallQuery{{From: e.At.Add(-nearby), To: at}, {From: at, To: at.Add(nearby), OldestFirst: true}}
}

// distance is how far a call is from what is asked about. In a minute the last one is
// nearest, and all are nearer than those outside.
func (e *explaining) distance(c *domain.Call) time.Duration {
	if !e.Minute {
		return c.At.Sub(e.At).Abs()
	}
	end := e.At.Add(time.Minute)
	switch {
	case c.At.Before(e.At):
		return time.Minute + e.At.Sub(c.At)
	case c.At.Before(end):
		return end.Sub(c.At)
	}
	return time.Minute + c.At.Sub(end)
}

// findHit finds the hit that is meant. If it was refused, or a minute is asked about,
// the rest is told of its time.
func (e *explaining) findHit(ctx context.Context) error {
	for _, outcome := range []domain.CallOutcome{domain.OutcomeRefused, domain.OutcomeAllowed} {
		query := domain.CallQuery{Policy: e.Policy, Key: e.Key, Outcome: outcome}
		from, to := e.span()
		query.From, query.To = from, to
		if !e.Minute {
			query.To = after(e.At)
		}
		earlier, err := e.first(ctx, query)
		if err != nil {
			return err
		}
		e.Hit = earlier
		if !e.Minute {
			query.From, query.To, query.OldestFirst = after(e.At), to, true
			later, err := e.first(ctx, query)
			if err != nil {
				return err
			}
			if earlier == nil || later != nil && later.At.Sub(e.At) < e.At.Sub(earlier.At) {
				e.Hit = later
			}
		}
		if e.Hit != nil {
			break
		}
	}
	switch {
	case e.Hit == nil:
	case !e.Hit.Allowed:
		e.AsOf, e.before = e.Hit.At, e.Hit.ID
	case e.Minute:
		e.AsOf = e.Hit.At
	}
	return nil
}

// findRefusals finds the nearest refusals if there is no hit, and who else refused the
// key at the time of the one that is told.
func (e *explaining) findRefusals(ctx context.Context) (err error) {
	query := domain.CallQuery{Policy: e.Policy, Key: e.Key, Outcome: domain.OutcomeRefused}
	if e.Hit == nil {
		from, to := e.span()
		query.From, query.To = e.At.Add(-nearby), from
		if e.RefusedBefore, err = e.first(ctx, query); err != nil {
			return err
		}
		later := query
		later.From, later.To, later.OldestFirst = to, to.Add(nearby), true
		if e.RefusedAfter, err = e.first(ctx, later); err != nil {
			return err
		}
	}
	told := e.Refusal()
	if told == nil {
		return nil
	}
	query.Policy, query.From, query.To, query.Limit = "", told.At.Add(-near), after(told.At.Add(near)), someCalls
	calls, err := e.history.read(ctx, query)
	for _, call := range calls {
		if call.Policy != e.Policy && !call.Shadow {
			e.RefusedToo = append(e.RefusedToo, call.Policy)
		}
	}
	slices.Sort(e.RefusedToo)
	e.RefusedToo = slices.Compact(e.RefusedToo)
	return err
}

// first is the first call that query finds, or nil.
func (e *explaining) first(ctx context.Context, query domain.CallQuery) (*domain.Call, error) {
	query.Limit = 1
	calls, err := e.history.read(ctx, query)
	if err != nil || len(calls) == 0 {
		return nil, err
	}
	return &calls[0], nil
}

// firstOther is the first call of the key that query finds, all of whose kinds are no
// hits, or nil.
func (e *explaining) firstOther(ctx context.Context, query domain.CallQuery) (found *domain.Call, err error) {
	return found, e.others(ctx, query, func(call *domain.Call) bool {
		found = call
		return false
	})
}

// others passes the calls of the key that query finds, all of whose kinds are no hits,
// to do, while that returns true. A log finds the few calls of such kinds at once, but
// those of a key only among all that it has of the key, which may be millions: so it
// is asked for the calls of all keys first.
func (e *explaining) others(ctx context.Context, query domain.CallQuery, do func(*domain.Call) bool) error {
	key := query.Key
	query.Key, query.Limit = "", MaxPage
	for n := 0; ; n++ {
		if n == otherPages {
			query.Key = key
		}
		page, err := e.history.read(ctx, query)
		if err != nil {
			return err
		}
		for i := range page {
			if page[i].Key == key && !do(&page[i]) {
				return nil
			}
		}
		if len(page) < query.Limit {
			return nil
		}
		goOn(&query, page)
	}
}
