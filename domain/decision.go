package domain

import "time"

// Decision is what a hit came to.
type Decision struct {
	Key  string
	Cost int64
	// At is the time of the hit, the one reading of the clock that decided it.
	At      time.Time
	Allowed bool
	// Policies has the decision of each policy, in the order of the hit.
	Policies []PolicyDecision
}

// PolicyDecision is what a hit came to under one policy.
type PolicyDecision struct {
	Policy string
	Limit  int64
	Window Window
	// Tally is after the hit.
	Tally
}

// Allowed reports whether this policy had room for the hit.
func (p PolicyDecision) Allowed() bool { return !p.Refuses }

// Remaining is the units that are left in the window, never negative;
// [Unlimited] if there is no limit.
func (p PolicyDecision) Remaining() int64 { return p.Room(p.Limit) }

// Nearest is the policy nearest to refusal: of those that refused, else of all,
// the one with the smallest share of its limit left; of equals the one whose
// window ends last.
func (d Decision) Nearest() PolicyDecision {
	nearest := d.Policies[0]
	for _, p := range d.Policies[1:] {
		if nearer(p, nearest) {
			nearest = p
		}
	}
	return nearest
}

func nearer(p, q PolicyDecision) bool {
	if p.Refuses != q.Refuses {
		return p.Refuses
	}
	if left, than := p.share(), q.share(); left != than {
		return left < than
	}
	return p.Window.End.After(q.Window.End)
}

// share is how much of the limit is left, 0 to 1.
func (p PolicyDecision) share() float64 {
	switch p.Limit {
	case Unlimited:
		return 1
	case 0:
		return 0
	}
	return float64(p.Remaining()) / float64(p.Limit)
}

// RetryAfter is how many whole seconds to wait until every policy that refused
// has room again if nobody else asks, rounded up and at least 1; 0 if the hit was allowed.
func (d Decision) RetryAfter() int64 {
	var wait int64
	for _, p := range d.Policies {
		if p.Refuses {
			wait = max(wait, p.Window.SecondsLeft(d.At))
		}
	}
	return wait
}

// Err is nil if the hit was allowed, else the [Decision.Exceeded].
func (d Decision) Err() error {
	if exceeded := d.Exceeded(); exceeded != nil {
		return exceeded
	}
	return nil
}

// Exceeded is nil if the hit was allowed, else says which limit it met.
func (d Decision) Exceeded() *RateLimitExceeded {
	if d.Allowed {
		return nil
	}
	var worst *PolicyDecision
	var violated []string
	for i := range d.Policies {
		p := &d.Policies[i]
		if !p.Refuses {
			continue
		}
		violated = append(violated, p.Policy)
		if worst == nil || p.Window.End.After(worst.Window.End) {
			worst = p
		}
	}
	return &RateLimitExceeded{
		Key: d.Key, Policy: worst.Policy, Limit: worst.Limit, Window: worst.Window,
		RetryAfter: d.RetryAfter(), Violated: violated,
	}
}
