package domain

import "context"

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
