package domain

import "time"

// Explanation is what can be told of a key under a policy at a time: the limit, what
// was used, what used it up, and when the key passes again. It holds what counters and
// log say, and says where they say nothing.
type Explanation struct {
	Key, Policy string
	// At is the time that was asked about, and AsOf the time that is told of: At, or
	// that of a hit within a second of it that was refused.
	At, AsOf time.Time
	// Hit is a hit within a second of At: of refused ones the nearest, else of allowed
	// ones; nil if the log has none.
	Hit *Call

	// Limit, Shadow and Schedule were in force at AsOf, by what LimitFrom says.
	// LimitOf is whose the limit was.
	Limit     int64
	Shadow    bool
	Schedule  Schedule
	LimitOf   LimitOf
	LimitFrom Evidence
	// PolicySet is the call that put the policy in force as it was at AsOf, and QuotaSet
	// the one that gave the key the limit of its own; nil if the log does not know.
	PolicySet, QuotaSet *Call

	// Window contains AsOf.
	Window Window
	// Tally is the window's at AsOf, without Refuses, by what TallyFrom says. By
	// FromNothing all is zero.
	Tally
	TallyFrom Evidence
	// Spent are the calls that were allowed in the window up to AsOf since the last
	// reset, newest first, the first [MaxSpent] of them; SpentPaths is how many paths
	// they and the others have, and SpentByPath the units of those with most.
	Spent       []Call
	SpentPaths  int
	SpentByPath []UsageGroup
	// Resets are the resets in the window, also those after AsOf, oldest first, at most [MaxSpent].
	Resets []Call
	// Partial says that the log does not have all hits of the policy.
	Partial bool

	// Now is what holds when the explanation is made, Refuses being about a hit of cost
	// 1; nil if the policy is in force no more. NowOf is whose its limit is.
	Now   *PolicyDecision
	NowOf LimitOf
	// NowAt is when that is, and RetryAfter how many whole seconds later a hit of cost 1
	// passes if nobody else asks: 0 is at once, [Never] is not before the limit changes.
	NowAt      time.Time
	RetryAfter int64
}

// MaxSpent is how many calls an explanation tells.
const MaxSpent = 100

// Never is no number of seconds.
const Never = -1

// LimitOf says whose a limit is.
type LimitOf string

const (
	// LimitOfPolicy is the limit that a policy has for all keys.
	LimitOfPolicy LimitOf = "policy"
	// LimitOfQuota is the key's own.
	LimitOfQuota LimitOf = "quota"
)

// Evidence says what a part of an explanation is known by.
type Evidence string

const (
	// FromNothing means that neither log nor counters say anything of it.
	FromNothing Evidence = ""
	// FromCall is a hit in the log, which tells the limit that decided it, and what the
	// window held after it.
	FromCall Evidence = "call"
	// FromReset is a reset in the log.
	FromReset Evidence = "reset"
	// FromChange is the log of what was put in force before.
	FromChange Evidence = "change"
	// FromNow is what is in force, or counted, when the explanation is made.
	FromNow Evidence = "now"
)

// HadRoom reports whether a hit of cost 1 had room at AsOf. It means something only if
// something is known of the window.
func (e *Explanation) HadRoom() bool { return e.Fits(1, e.Limit) }

// Changed reports whether a limit, schedule or shadow is in force now that is another
// than at AsOf.
func (e *Explanation) Changed() bool {
	return e.Now != nil && (e.Now.Limit != e.Limit || e.Now.Shadow != e.Shadow || !e.Now.Schedule.Equal(e.Schedule))
}

// PassesAt is when a hit of cost 1 passes again, see RetryAfter, rounded up to the
// millisecond; the zero time for never.
func (e *Explanation) PassesAt() time.Time {
	if e.Now == nil || e.RetryAfter == Never {
		return time.Time{}
	}
	return e.NowAt.Add(time.Duration(e.RetryAfter)*time.Second + time.Millisecond - 1).Truncate(time.Millisecond)
}
