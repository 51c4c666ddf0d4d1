package domain

import (
	"context"
	"slices"
	"time"
)

// AuditLog remembers calls. It is safe for concurrent use.
type AuditLog interface {
	// Append adds calls in their order, all or, with an error, none. IDs are the
	// log's to give: those of the calls are ignored. The slice is the caller's again
	// once Append has returned.
	Append(ctx context.Context, calls []Call) error

	// Calls returns the calls that query asks for. Whoever pages with Before or
	// After sees every call once, also while calls are being added.
	Calls(ctx context.Context, query CallQuery) ([]Call, error)
}

// CallQuery says which calls to return. The zero value of a filter lets all pass.
type CallQuery struct {
	Policy string
	Key    string
	// Outcome is "" for all, else one of the constants.
	Outcome CallOutcome
	// Kinds are the kinds to return; none is all.
	Kinds []CallKind
	// From and To bound the time of the request, From inclusive and To exclusive, to
	// the millisecond; the zero time is no bound.
	From, To time.Time
	// Path and RequestID must be equal, byte for byte.
	Path, RequestID string
	// After and Before bound the IDs, both exclusive; 0 is no bound.
	After, Before int64
	// OldestFirst turns the order around; the default is newest first, by ID.
	OldestFirst bool
	// Limit is how many calls to return at most, at least 1.
	Limit int
}

// CallOutcome picks calls by what they came to.
type CallOutcome string

const (
	// OutcomeAllowed picks hits that were allowed.
	OutcomeAllowed CallOutcome = "allowed"
	// OutcomeRefused picks hits that were refused.
	OutcomeRefused CallOutcome = "refused"
)

// Matches reports whether the query's filters let the call pass. Order and limit are
// not its business.
func (q *CallQuery) Matches(c *Call) bool {
	switch {
	case q.Policy != "" && q.Policy != c.Policy, q.Key != "" && q.Key != c.Key, q.Path != "" && q.Path != c.Path,
		q.RequestID != "" && q.RequestID != c.RequestID, q.After > 0 && c.ID <= q.After, q.Before > 0 && c.ID >= q.Before,
		len(q.Kinds) > 0 && !slices.Contains(q.Kinds, c.Kind),
		q.Outcome != "" && (c.Kind != CallHit || c.Allowed != (q.Outcome == OutcomeAllowed)),
		!q.From.IsZero() && c.At.Before(CeilMilli(q.From)), !q.To.IsZero() && !c.At.Before(CeilMilli(q.To)):
		return false
	}
	return true
}

// CeilMilli is the first whole millisecond at or after t, in UTC. Times of calls are
// whole milliseconds, so that comparing with it is comparing with t.
func CeilMilli(t time.Time) time.Time {
	return t.Add(time.Millisecond - 1).UTC().Truncate(time.Millisecond)
}
