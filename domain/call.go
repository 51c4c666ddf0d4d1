package domain

import "time"

// Call is one remembered event: the decision of one policy over a hit, or over
// several refused ones alike, or a reset.
//
// Over the calls of one window since its last reset, Cost × Hits adds up to the
// window's count, and over the refused ones to its refused.
type Call struct {
	// ID is given by the log, in the order of commit, from 1 up.
	ID   int64
	Kind CallKind
	// At is the time of the request, to the millisecond. For refused hits that
	// share a call it is the first one's, as are Method, Path and RequestID.
	At     time.Time
	Policy string
	Key    string
	// Cost is the units of each hit.
	Cost int64
	// Hits is the number of hits that the call stands for: 1, for refused hits 1
	// or more, for a reset 0.
	Hits    int64
	Allowed bool
	// Count and Refused are the window's after the call; both 0 for a reset.
	Count, Refused int64
	// Limit is the limit that decided, maybe [Unlimited]. It has no meaning for a reset.
	Limit int64
	// WindowStart is the start of the window, the zero time for a reset.
	WindowStart time.Time

	Method    string
	Path      string
	RequestID string
}

// CallKind says what a call remembers.
type CallKind string

const (
	// CallHit is a hit that was decided.
	CallHit CallKind = "hit"
	// CallReset is a reset of a key under a policy.
	CallReset CallKind = "reset"
)
