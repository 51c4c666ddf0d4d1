package domain

import "time"

// Explanation is what can be told of a key under a policy at a time: the limit, what
// was used, what used it up, and when the key passes again. It holds what counters and
// log say, and says where they say nothing.
type Explanation struct {
	Key, Policy string
	// At is the time that was asked about, or with Minute the beginning of the minute,
	// and AsOf the time that is told of: At, or that of Hit if it was refused or a minute
	// was asked about.
	At, AsOf time.Time
	Minute   bool
	// Hit is a hit within a second of At: of refused ones the nearest, else of allowed
	// ones; with Minute the last one in the minute; nil if the log has none.
	Hit *Call
	// RefusedBefore and RefusedAfter are, if there is no Hit, the nearest refusals within
	// a day; nil if the log has none.
	RefusedBefore, RefusedAfter *Call
	// RefusedToo are the other policies that refused the key within a second of the
	// refusal that is told, see [Explanation.Refusal], in byte order, as far as they are
	// found among some hundred refusals.
	RefusedToo []string

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
	// they and the others have, and SpentByPath the units of those with most. If SpentOf
	// is not 0, paths are those of the newest calls alone, so many.
	Spent       []Call
	SpentOf     int
	SpentPaths  int
	SpentByPath []UsageGroup
	// Resets are the resets in the window, also those after AsOf, oldest first, the last
	// [MaxSpent] of them.
	Resets []Call
	// Partial says that the log does not have all hits of the policy.
	Partial bool

	// Cost is what a hit takes that is to pass again: that of the hit that was refused, if
	// one is told, else 1.
	Cost int64
	// Now is what holds when the explanation is made, Refuses being about a hit of Cost,
	// by what NowFrom says; nil if the policy is in force no more, and if nothing is
	// known of it, which is FromNothing. NowOf is whose its limit is, and NowSet the call
	// that put it in force if NowFrom is FromChange.
	Now     *PolicyDecision
	NowOf   LimitOf
	NowFrom Evidence
	NowSet  *Call
	// NowAt is when that is, and RetryAfter how many whole seconds later a hit of Cost
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
	// FromSettings is what whoever explains was told, who does not enforce it.
	FromSettings Evidence = "settings"
)

// Refusal is the refusal that is told: Hit, or if there is none RefusedBefore or else
// RefusedAfter; nil if there is none.
func (e *Explanation) Refusal() *Call {
	switch {
	case e.Hit != nil && !e.Hit.Allowed:
		return e.Hit
	case e.RefusedBefore != nil:
		return e.RefusedBefore
	}
	return e.RefusedAfter
}

// HadRoom reports whether a hit of cost 1 had room at AsOf. It means something only if
// something is known of the window.
func (e *Explanation) HadRoom() bool { return e.Fits(1, e.Limit) }

// Changed reports whether a limit, schedule or shadow is in force now that is another
// than at AsOf.
func (e *Explanation) Changed() bool {
	return e.Now != nil && (e.Now.Limit != e.Limit || e.Now.Shadow != e.Shadow || !e.Now.Schedule.Equal(e.Schedule))
}

// PassesAt is when a hit of Cost passes again: the first whole second on the clock at
// which it does, or NowAt, rounded up to the millisecond, if that is at once; the zero
// time for never. It is no later than RetryAfter seconds after NowAt but for less than
// a second.
func (e *Explanation) PassesAt() time.Time {
	if e.Now == nil || e.RetryAfter == Never {
		return time.Time{}
	}
	at := e.NowAt.Add(time.Duration(e.RetryAfter) * time.Second)
	if e.RetryAfter == 0 {
		return CeilMilli(at)
	}
	second := at.Truncate(time.Second)
	if second.Equal(at) || second.After(e.NowAt) && e.Now.passesAt(second, e.Cost) {
		return second
	}
	return second.Add(time.Second)
}
