package domain

import (
	"math"
	"math/bits"
	"time"
)

// Call is one remembered event: the decision of one policy over a hit, or over
// several refused ones alike, or what an administrator did.
//
// Over the calls of one window since its last reset, Cost × Hits adds up to the
// window's count, and over the refused ones to its refused.
type Call struct {
	// ID is given by the log, in the order of commit, from 1 up.
	ID   int64
	Kind CallKind
	// At is the time of the request, to the millisecond. For refused hits that
	// share a call it is the first one's, as is Origin.
	At     time.Time
	Policy string
	Key    string
	// Cost is the units of each hit.
	Cost int64
	// Hits is the number of hits that the call stands for: 1, for refused and
	// unchecked hits 1 or more, for what is no hit 0.
	Hits    int64
	Allowed bool
	// Shadow says that the policy had no say: refused hits passed if others let them.
	Shadow bool
	// Count and Refused are the window's after the call; both 0 for what is no hit.
	Count, Refused int64
	// Limit is the limit that decided, or of a quota or a policy the new one, maybe
	// [Unlimited]. It has no meaning for other calls.
	Limit int64
	// WindowStart is the start of the window, the zero time for what is in none, and
	// Schedule the text form of the schedule that the window is one of.
	WindowStart time.Time
	Schedule    string
	// Coverage is what the log has of the policy's hits: "" is all of them, else the
	// text form of [Audit.Coverage].
	Coverage string
	// Hash is given by logs that chain their calls, see [Call.Chain]; "" if there is no chain.
	Hash string

	Origin
}

// Units is Cost × Hits, the largest int64 if it is more.
func (c *Call) Units() int64 {
	if hi, lo := bits.Mul64(uint64(c.Cost), uint64(c.Hits)); hi == 0 && lo <= math.MaxInt64 {
		return int64(lo)
	}
	return math.MaxInt64
}

// AddUnits is a sum of units, the largest int64 if it is more. Neither is negative.
func AddUnits(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

// CallKind says what a call remembers.
type CallKind string

const (
	// CallHit is a hit that was decided.
	CallHit CallKind = "hit"
	// CallReset is a reset of a key under a policy.
	CallReset CallKind = "reset"
	// CallQuotaSet gives a key a limit of its own under a policy.
	CallQuotaSet CallKind = "quota_set"
	// CallQuotaUnset takes it away.
	CallQuotaUnset CallKind = "quota_unset"
	// CallUnchecked is hits alike that were allowed because the store could not
	// decide. They are in no window. Key is empty if there were too many to tell apart.
	CallUnchecked CallKind = "unchecked"
	// CallPolicySet says that a server has put a policy in force that is new or has
	// changed: Limit, Schedule, Shadow and Coverage are the policy's, Path is where it
	// came from, RequestID the revision of the whole configuration. If nothing of that
	// has changed but the revision, all policies are said again.
	CallPolicySet CallKind = "policy_set"
	// CallPolicyRemoved says that a policy is in force no more.
	CallPolicyRemoved CallKind = "policy_removed"
)

// CallKinds are all kinds there are.
func CallKinds() []CallKind {
	return []CallKind{CallHit, CallReset, CallQuotaSet, CallQuotaUnset, CallUnchecked, CallPolicySet, CallPolicyRemoved}
}

// InWindow reports whether calls of this kind are counted in a window.
func (k CallKind) InWindow() bool { return k == CallHit }

// HasLimit reports whether calls of this kind tell a limit.
func (k CallKind) HasLimit() bool { return k == CallHit || k == CallQuotaSet || k == CallPolicySet }

// Ages reports whether calls of this kind are removed when they are old. What
// administrators and servers did stays: it explains the others, is little, and clients
// could push it out.
func (k CallKind) Ages() bool { return !k.IsAdministration() }

// IsAdministration reports whether calls of this kind are what somebody did to the
// limiter, not to a limit.
func (k CallKind) IsAdministration() bool { return k != CallHit && k != CallUnchecked }
