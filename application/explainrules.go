package application

import (
	"context"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// findRules finds limit, schedule and shadow, by the best evidence that there is: the
// call that decided; what was put in force before; a call soon after; what is in force
// now; and for a policy that is gone, its last call.
func (e *explaining) findRules(ctx context.Context) error {
	changed := e.isLater(e.PolicySet) || e.isLater(e.quota)
	switch {
	case (!changed || e.before > 0) && e.decidedBy(e.last):
	case e.PolicySet != nil:
		schedule, err := domain.ParseSchedule(e.PolicySet.Schedule)
		if err != nil {
			return err
		}
		e.Limit, e.Shadow, e.Schedule, e.LimitFrom = e.PolicySet.Limit, e.PolicySet.Shadow, schedule, domain.FromChange
	case e.quota == nil && e.decidedBy(e.Hit):
	case e.Now != nil:
		e.Limit, e.Shadow, e.Schedule, e.LimitFrom = e.Now.Limit, e.Now.Shadow, e.Now.Schedule, domain.FromNow
		if e.quota != nil || e.newQuota {
			e.Limit = e.rule.Limit // not the key's own, or not the one now
		}
	default:
		return e.findRulesOfOthers(ctx)
	}
	if e.LimitFrom != domain.FromCall && e.quota != nil && e.quota.Kind == domain.CallQuotaSet {
		e.Limit, e.LimitFrom = e.quota.Limit, domain.FromChange
	}
	e.LimitOf = e.whoseLimit()
	if e.LimitOf == domain.LimitOfQuota {
		e.QuotaSet = e.quota
	}
	e.Window = e.Schedule.At(e.AsOf)
	return nil
}

// decidedBy takes limit, schedule and shadow from a hit, if its window has the time that
// is told of.
func (e *explaining) decidedBy(hit *domain.Call) bool {
	if hit == nil {
		return false
	}
	schedule, err := e.scheduleOf(hit)
	if err != nil || !schedule.At(hit.WindowStart).Contains(e.AsOf) {
		return false
	}
	e.Limit, e.Shadow, e.Schedule, e.LimitFrom = hit.Limit, hit.Shadow, schedule, domain.FromCall
	return true
}

// findRulesOfOthers takes the rules of a policy that is gone from its last call, which
// may be of another key.
func (e *explaining) findRulesOfOthers(ctx context.Context) error {
	call, err := e.first(ctx, domain.CallQuery{Policy: e.Policy, Kinds: []domain.CallKind{domain.CallHit, domain.CallPolicySet}})
	if err != nil {
		return err
	}
	if call == nil {
		return &domain.NotFoundError{Kind: "policy", Name: e.Policy}
	}
	if e.Schedule, err = e.scheduleOf(call); err != nil {
		return &domain.NotFoundError{Kind: "policy", Name: e.Policy} // the log is older than schedules in it
	}
	e.Limit, e.Shadow, e.LimitFrom, e.LimitOf = call.Limit, call.Shadow, domain.FromCall, domain.LimitOfPolicy
	e.Window = e.Schedule.At(e.AsOf)
	return nil
}

// scheduleOf is the schedule of a call, or of one that is older than schedules in the
// log the one now, if that has such a window.
func (e *explaining) scheduleOf(call *domain.Call) (domain.Schedule, error) {
	if call.Schedule == "" && e.Now != nil && e.Now.Schedule.At(call.WindowStart).Start.Equal(call.WindowStart) {
		return e.Now.Schedule, nil
	}
	return domain.ParseSchedule(call.Schedule)
}

// isLater reports whether a change came after the last hit. IDs alone do not tell:
// refusals from memory are logged some time after they were answered.
func (e *explaining) isLater(change *domain.Call) bool {
	if change == nil || e.last == nil {
		return false
	}
	return change.At.After(e.last.At) || change.At.Equal(e.last.At) && change.ID > e.last.ID
}

// whoseLimit tells whether the limit is the key's own. If the log does not tell of the
// quota it is by what the limits are now.
func (e *explaining) whoseLimit() domain.LimitOf {
	switch {
	case e.quota != nil:
		if e.quota.Kind == domain.CallQuotaSet && e.quota.Limit == e.Limit {
			return domain.LimitOfQuota
		}
	case e.newQuota, e.PolicySet != nil && e.PolicySet.Limit == e.Limit:
	case e.NowOf == domain.LimitOfQuota && e.Now.Limit == e.Limit:
		return domain.LimitOfQuota
	}
	return domain.LimitOfPolicy
}
