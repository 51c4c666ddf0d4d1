package application

import (
	"context"
	"errors"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Explainer says why a key was refused, or would have been. It is safe for concurrent use.
type Explainer struct {
	limiter *Limiter
	history *History
}

// NewExplainer explains what the limiter decides by what the history has of it.
func NewExplainer(limiter *Limiter, history *History) *Explainer {
	return &Explainer{limiter: limiter, history: history}
}

// near is how far from the time that is asked about a hit may be to be what is meant.
const near = time.Second

// Explain tells what is known of key under a policy at a time, the zero time being now.
// It sees every hit that this process answered before. A key or a time that makes no
// sense, which the future does not, is an *[domain.InvalidError]; a policy that neither
// is in force nor in the log a *[domain.NotFoundError]; [domain.ErrUnavailable] says
// that counters or log could not be read, or not in time.
func (x *Explainer) Explain(ctx context.Context, key, policy string, at time.Time) (domain.Explanation, error) {
	key = x.limiter.KeptAs(key)
	if err := domain.CheckKey(key); err != nil {
		return domain.Explanation{}, err
	}
	e := &explaining{Explanation: domain.Explanation{Key: key, Policy: policy, NowAt: x.limiter.now().UTC()}, limiter: x.limiter, history: x.history}
	if err := e.lookNow(ctx); err != nil {
		return domain.Explanation{}, err
	}
	if err := x.history.flush(ctx); err != nil {
		return domain.Explanation{}, err
	}
	if at.IsZero() {
		at = e.NowAt
	}
	if at.After(e.NowAt) {
		return domain.Explanation{}, &domain.InvalidError{Field: "at", Reason: "is in the future"}
	}
	e.At, e.AsOf = at.UTC(), at.UTC()
	for _, step := range []func(context.Context) error{e.findHit, e.findChanges, e.findRules, e.findResets, e.findTally, e.findSpent} {
		if err := step(ctx); err != nil {
			return domain.Explanation{}, err
		}
	}
	return e.Explanation, nil
}

// explaining is an explanation that is being made, step by step.
type explaining struct {
	domain.Explanation
	limiter *Limiter
	history *History

	before   int64        // calls from this ID on came after what is told of; 0 is no bound
	since    int64        // calls up to this ID are forgotten by a reset
	quota    *domain.Call // the last change of the key's quota before
	newQuota bool         // the log tells of no such change, and of one after
	last     *domain.Call // the last hit before, in whatever window
}

// query asks for the newest calls of the key under the policy up to what is told of.
func (e *explaining) query(kinds ...domain.CallKind) domain.CallQuery {
	return domain.CallQuery{Policy: e.Policy, Key: e.Key, Kinds: kinds, To: after(e.AsOf), Before: e.before, Limit: 1}
}

// after is a bound that lets the calls of t pass, whose times are whole milliseconds.
func after(t time.Time) time.Time { return t.Truncate(time.Millisecond).Add(time.Millisecond) }

// first is the first call that query finds, or nil.
func (e *explaining) first(ctx context.Context, query domain.CallQuery) (*domain.Call, error) {
	query.Limit = 1
	calls, err := e.history.read(ctx, query)
	if err != nil || len(calls) == 0 {
		return nil, err
	}
	return &calls[0], nil
}

// lookNow finds what is in force and counted now, and when a hit passes.
func (e *explaining) lookNow(ctx context.Context) error {
	decision, err := e.limiter.Counters(ctx, e.Key, e.Policy)
	if errors.Is(err, domain.ErrNotFound) {
		return e.mustBeKnown(ctx, err)
	}
	if err != nil {
		return err
	}
	decision.Cost = 1
	now := &decision.Policies[0]
	now.Refuses = !now.Fits(1, now.Limit)
	e.Now, e.NowAt, e.NowOf = now, decision.At.UTC(), domain.LimitOfPolicy
	if _, err := e.limiter.Quota(e.Policy, e.Key); err == nil {
		e.NowOf = domain.LimitOfQuota
	}
	switch {
	case !now.Refuses || now.Shadow:
	case now.Limit == 0:
		e.RetryAfter = domain.Never
	default:
		e.RetryAfter = decision.RetryAfter()
	}
	return nil
}

// mustBeKnown lets a policy that is not in force be explained if the log has some call of it.
func (e *explaining) mustBeKnown(ctx context.Context, notFound error) error {
	if domain.CheckPolicyName(e.Policy) != nil {
		return notFound
	}
	call, err := e.first(ctx, domain.CallQuery{Policy: e.Policy})
	if err == nil && call == nil {
		return notFound
	}
	return err
}

// findHit finds the hit that is meant. If it was refused, the rest is told of its time.
func (e *explaining) findHit(ctx context.Context) error {
	for _, outcome := range []domain.CallOutcome{domain.OutcomeRefused, domain.OutcomeAllowed} {
		query := domain.CallQuery{Policy: e.Policy, Key: e.Key, Outcome: outcome, From: e.At.Add(-near), To: after(e.At)}
		earlier, err := e.first(ctx, query)
		if err != nil {
			return err
		}
		query.From, query.To, query.OldestFirst = after(e.At), after(e.At.Add(near)), true
		later, err := e.first(ctx, query)
		if err != nil {
			return err
		}
		if e.Hit = earlier; earlier == nil || later != nil && later.At.Sub(e.At) < e.At.Sub(earlier.At) {
			e.Hit = later
		}
		if e.Hit != nil {
			break
		}
	}
	if e.Hit != nil && !e.Hit.Allowed {
		e.AsOf, e.before = e.Hit.At, e.Hit.ID
	}
	return nil
}

// findChanges finds what was put in force last, and the last hit.
func (e *explaining) findChanges(ctx context.Context) (err error) {
	policy := e.query(domain.CallPolicySet, domain.CallPolicyRemoved)
	policy.Key = "" // it is about all keys
	if e.PolicySet, err = e.first(ctx, policy); err != nil {
		return err
	}
	if e.PolicySet != nil && e.PolicySet.Kind == domain.CallPolicyRemoved {
		e.PolicySet = nil
	}
	if e.quota, err = e.first(ctx, e.query(domain.CallQuotaSet, domain.CallQuotaUnset)); err != nil {
		return err
	}
	if e.quota == nil {
		later := domain.CallQuery{Policy: e.Policy, Key: e.Key, Kinds: []domain.CallKind{domain.CallQuotaSet, domain.CallQuotaUnset}, OldestFirst: true}
		set, err := e.first(ctx, later)
		if err != nil {
			return err
		}
		e.newQuota = set != nil && set.Kind == domain.CallQuotaSet
	}
	if e.before > 0 {
		e.last = e.Hit
		return nil
	}
	e.last, err = e.first(ctx, e.query(domain.CallHit))
	return err
}
