package domain

import "time"

// Decision is what a hit came to.
type Decision struct {
	Key  string
	Cost int64
	// At is the time of the hit, the one reading of the clock that decided it.
	At      time.Time
	Allowed bool
	// Unchecked says that the store could not decide, and that all policies are open
	// to that: the hit is allowed, counted nowhere, and there are no numbers.
	Unchecked bool
	// Policies has the decision of each policy, in the order of the hit.
	Policies []PolicyDecision
}

// PolicyDecision is what a hit came to under one policy.
type PolicyDecision struct {
	Policy   string
	Limit    int64
	Shadow   bool // the policy has no say: Allowed tells what it would have said
	Schedule Schedule
	Window   Window
	// Tally is after the hit.
	Tally
}

// Allowed reports whether this policy had room for the hit.
func (p PolicyDecision) Allowed() bool { return !p.Refuses }

// refused reports whether the policy kept the hit from passing.
func (p *PolicyDecision) refused() bool { return p.Refuses && !p.Shadow }

// Remaining is the units that are left in the window, never negative;
// [Unlimited] if there is no limit.
func (p PolicyDecision) Remaining() int64 { return p.Room(p.Limit) }

// Nearest is the policy nearest to refusal: of those that refused, else of all,
// the one with the smallest share of its limit left; of equals the one whose
// window ends last. Policies in shadow refuse nothing; it is nil if there are no others.
func (d *Decision) Nearest() (nearest *PolicyDecision) {
	for i := range d.Policies {
		if p := &d.Policies[i]; !p.Shadow && (nearest == nil || nearer(p, nearest)) {
			nearest = p
		}
	}
	return nearest
}

func nearer(p, q *PolicyDecision) bool {
	if p.Refuses != q.Refuses {
		return p.Refuses
	}
	if left, than := p.share(), q.share(); left != than {
		return left < than
	}
	return p.Window.End.After(q.Window.End)
}

// share is how much of the limit is left, 0 to 1.
func (p *PolicyDecision) share() float64 {
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
	for i := range d.Policies {
		if p := &d.Policies[i]; p.refused() {
			wait = max(wait, p.retryAfter(d.At, d.Cost))
		}
	}
	return wait
}

// ResetAfter is how many whole seconds after the hit that d decided the policy
// has more to give: the rest of its window, or for a policy that refused and
// slides, until the cost of the hit fits.
func (p *PolicyDecision) ResetAfter(d *Decision) int64 {
	if p.Refuses {
		return p.retryAfter(d.At, d.Cost)
	}
	return p.Window.SecondsLeft(d.At)
}

// retryAfter is the first whole second after at at which cost would fit if nobody
// else asked. A limit that cost can never fit is tried again in the next window.
func (p *PolicyDecision) retryAfter(at time.Time, cost int64) int64 {
	if !p.Schedule.slides() || cost > p.Limit {
		return p.Window.SecondsLeft(at)
	}
	// Later is never fuller, so the first second that fits can be searched for. Two
	// windows from now nothing of today weighs in any more.
	first, last := int64(1), 2*p.Schedule.length
	for first < last {
		if middle := (first + last) / 2; p.fitsAt(at.Add(time.Duration(middle)*time.Second), cost) {
			last = middle
		} else {
			first = middle + 1
		}
	}
	return first
}

// FullUntil is when a unit fits again, if none does at at, the time of the decision, and
// nobody else asks: to the second for a policy that slides, else the end of its window. It
// means nothing of a limit of 0.
func (p *PolicyDecision) FullUntil(at time.Time) time.Time {
	if !p.Schedule.slides() {
		return p.Window.End
	}
	return at.Add(time.Duration(p.retryAfter(at, 1)) * time.Second).Truncate(time.Second)
}

// fitsAt reports whether cost would fit at t, in a window that slides, if nobody
// else asked before.
func (p *PolicyDecision) fitsAt(t time.Time, cost int64) bool {
	now := Tally{Count: p.Used()}
	window, before := p.Window, p.Previous
	if !t.Before(window.End) {
		window, before, now = p.Schedule.At(t), p.Used(), Tally{}
		if window.Start.After(p.Window.End) {
			return true
		}
	}
	now.Carry = p.Schedule.Previous(window, t).Carry(before)
	return now.Fits(cost, p.Limit)
}

// passesAt reports whether a hit of that cost that was refused passes at t.
func (p *PolicyDecision) passesAt(t time.Time, cost int64) bool {
	if !p.Schedule.slides() {
		return !t.Before(p.Window.End)
	}
	return p.fitsAt(t, cost)
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
	var longest int64
	var violated []string
	for i := range d.Policies {
		p := &d.Policies[i]
		if !p.refused() {
			continue
		}
		violated = append(violated, p.Policy)
		if wait := p.retryAfter(d.At, d.Cost); worst == nil || wait > longest {
			worst, longest = p, wait
		}
	}
	if worst == nil { // the zero Decision, which is none
		return nil
	}
	return &RateLimitExceeded{
		Key: d.Key, Policy: worst.Policy, Limit: worst.Limit, Window: worst.Window,
		RetryAfter: longest, Violated: violated,
	}
}
