package application

import (
	"context"
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

// ExplainQuery says what to explain.
type ExplainQuery struct {
	Key string
	// Policy is the policy; "" is the one whose refusal of the key is nearest to the time
	// within a day, else that of the nearest hit, else the policy "default".
	Policy string
	// At is the time; the zero time is that of the last refusal within a day, else now. With
	// Minute it is the minute that begins then.
	At     time.Time
	Minute bool
	// Outside says that the limiter's rules are not those that decide about hits: it is
	// that of a command beside servers. What is in force is then what the log says was put
	// in force last, and the limiter's own rules only where the log does not know the policy.
	Outside bool
}

// Explain tells what is known of a key under a policy at a time. It sees every hit that
// this process answered before. A key or a time that makes no sense, which the future
// does not, is an *[domain.InvalidError]; a policy that neither is in force nor in the
// log a *[domain.NotFoundError]; [domain.ErrUnavailable] says that counters or log could
// not be read, or not in time.
func (x *Explainer) Explain(ctx context.Context, query ExplainQuery) (domain.Explanation, error) {
	key := x.limiter.KeptAs(query.Key)
	if err := domain.CheckKey(key); err != nil {
		return domain.Explanation{}, err
	}
	if !query.At.IsZero() {
		if err := domain.CheckTime("at", query.At); err != nil {
			return domain.Explanation{}, err
		}
	}
	e := &explaining{
		Explanation: domain.Explanation{Key: key, Policy: query.Policy, Minute: query.Minute && !query.At.IsZero(), NowAt: x.limiter.now().UTC()},
		limiter:     x.limiter, history: x.history, outside: query.Outside,
	}
	e.setAt(query.At)
	if query.Policy == "" {
		if err := x.history.flush(ctx); err != nil {
			return domain.Explanation{}, err
		}
		if err := e.choosePolicy(ctx); err != nil {
			return domain.Explanation{}, err
		}
	}
	if err := e.lookNow(ctx); err != nil {
		return domain.Explanation{}, err
	}
	if err := x.history.flush(ctx); err != nil { // after the counters, so that the log has what they have
		return domain.Explanation{}, err
	}
	if e.setAt(query.At); e.At.After(e.NowAt) {
		return domain.Explanation{}, &domain.InvalidError{Field: "at", Reason: "is in the future"}
	}
	if query.At.IsZero() {
		if err := e.goToLastRefusal(ctx); err != nil {
			return domain.Explanation{}, err
		}
	}
	for _, step := range []func(context.Context) error{e.findHit, e.findPassing, e.findRefusals, e.findChanges, e.findRules, e.findResets, e.findPartial, e.findTally, e.findSpent} {
		if err := step(ctx); err != nil {
			return domain.Explanation{}, err
		}
	}
	return e.Explanation, nil
}

// setAt takes over the time that is asked about, now if it is the zero time.
func (e *explaining) setAt(at time.Time) {
	if at.IsZero() {
		at = e.NowAt
	}
	e.At, e.AsOf = at.UTC(), at.UTC()
}

// goToLastRefusal makes the last refusal what is asked about, if there was one lately.
func (e *explaining) goToLastRefusal(ctx context.Context) error {
	last, err := e.first(ctx, domain.CallQuery{Policy: e.Policy, Key: e.Key, Outcome: domain.OutcomeRefused, From: e.At.Add(-nearby), To: after(e.At)})
	if err == nil && last != nil {
		e.setAt(last.At)
	}
	return err
}

// explaining is an explanation that is being made, step by step.
type explaining struct {
	domain.Explanation
	limiter *Limiter
	history *History
	outside bool

	decision domain.Decision // a look at what is counted now
	rule     domain.Policy   // that is in force now, if Now is not nil
	before   int64           // calls from this ID on came after what is told of; 0 is no bound
	since    int64           // calls up to this ID are forgotten by a reset
	quota    *domain.Call    // the last change of the key's quota before
	newQuota bool            // the log tells of no such change, and of one after
	last     *domain.Call    // the last hit before, in whatever window
}

// query asks for the newest calls of the key under the policy up to what is told of.
func (e *explaining) query(kinds ...domain.CallKind) domain.CallQuery {
	return domain.CallQuery{Policy: e.Policy, Key: e.Key, Kinds: kinds, To: after(e.AsOf), Before: e.before, Limit: 1}
}

// after is a bound that lets the calls of t pass, whose times are whole milliseconds.
func after(t time.Time) time.Time { return t.Truncate(time.Millisecond).Add(time.Millisecond) }

// lookNow finds what is in force and counted now, and when a hit passes.
func (e *explaining) lookNow(ctx context.Context) error {
	rules, err := e.rulesNow(ctx)
	if err != nil || rules == nil {
		return err
	}
	if e.rule, err = rules.policy(e.Policy); err != nil {
		return err
	}
	decision, err := e.limiter.hit(ctx, rules, domain.Hit{Key: e.Key, Policies: []string{e.Policy}})
	if err != nil {
		return err
	}
	e.decision = decision
	e.Now, e.NowAt, e.NowOf = &e.decision.Policies[0], decision.At.UTC(), domain.LimitOfPolicy
	if _, own := e.limiter.quotas.of(e.Policy, e.Key); own {
		e.NowOf = domain.LimitOfQuota
	}
	return nil
}

// findPassing finds when a hit like the one that was refused passes again.
func (e *explaining) findPassing(context.Context) error {
	e.Cost = 1
	if e.Hit != nil && !e.Hit.Allowed {
		e.Cost = max(e.Hit.Cost, 1)
	}
	if e.Now == nil {
		return nil
	}
	e.Now.Refuses, e.decision.Cost = !e.Now.Fits(e.Cost, e.Now.Limit), e.Cost
	switch {
	case !e.Now.Refuses || e.Now.Shadow:
	case e.Now.Limit < e.Cost:
		e.RetryAfter = domain.Never
	default:
		e.RetryAfter = e.decision.RetryAfter()
	}
	return nil
}

// rulesNow are rules that have the policy as it is in force now, nil if it is not: the
// limiter's own if it is them that decide, else what the log says. A policy that is not
// in force is explained if the log has some call of it.
func (e *explaining) rulesNow(ctx context.Context) (*ruleSet, error) {
	own := e.limiter.rules.inForce.Load()
	_, notFound := own.policy(e.Policy)
	if !e.outside && notFound == nil {
		e.NowFrom = domain.FromNow
		return own, nil
	}
	if domain.CheckPolicyName(e.Policy) != nil {
		return nil, notFound // nothing has such a name
	}
	if err := e.history.flush(ctx); err != nil {
		return nil, err
	}
	change, err := e.first(ctx, domain.CallQuery{Policy: e.Policy, Kinds: aboutRules})
	switch {
	case err != nil:
		return nil, err
	case change != nil && change.Kind == domain.CallPolicyRemoved:
		e.NowFrom = domain.FromChange
		return nil, nil
	case change != nil:
		schedule, err := domain.ParseSchedule(change.Schedule)
		if err != nil {
			return nil, err
		}
		e.NowFrom, e.NowSet = domain.FromChange, change
		policy := domain.Policy{Name: e.Policy, Limit: change.Limit, Schedule: schedule, Shadow: change.Shadow}
		return &ruleSet{byName: map[string]domain.Policy{e.Policy: policy}}, nil
	case notFound == nil:
		e.NowFrom = domain.FromSettings
		return own, nil
	case !e.outside:
		e.NowFrom = domain.FromNow // who decides does not have it, and nobody said that another does
	}
	call, err := e.first(ctx, domain.CallQuery{Policy: e.Policy})
	if err == nil && call == nil {
		err = notFound
	}
	return nil, err
}

// findChanges finds what was put in force last, and the last hit.
func (e *explaining) findChanges(ctx context.Context) (err error) {
	policy := e.query(aboutRules...)
	policy.Key = "" // it is about all keys
	if e.PolicySet, err = e.first(ctx, policy); err != nil {
		return err
	}
	if e.PolicySet != nil && e.PolicySet.Kind == domain.CallPolicyRemoved {
		e.PolicySet = nil
	}
	if e.quota, err = e.firstOther(ctx, e.query(aboutQuotas...)); err != nil {
		return err
	}
	if e.quota == nil {
		later := domain.CallQuery{Policy: e.Policy, Key: e.Key, Kinds: aboutQuotas, OldestFirst: true}
		set, err := e.firstOther(ctx, later)
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
