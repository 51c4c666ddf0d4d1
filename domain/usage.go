package domain

import (
	"context"
	"fmt"
	"time"
)

// UsageBy is what usage is added up by.
type UsageBy string

// What usage can be added up by.
const (
	UsageByKey    UsageBy = "key"
	UsageByPolicy UsageBy = "policy"
	UsageByPath   UsageBy = "path"
	UsageByMinute UsageBy = "minute"
	UsageByHour   UsageBy = "hour"
	UsageByDay    UsageBy = "day"
	UsageByMonth  UsageBy = "month"
)

// IsTime reports whether usage is added up over spans of time.
func (by UsageBy) IsTime() bool {
	return by != UsageByKey && by != UsageByPolicy && by != UsageByPath
}

// TotalQuery says which hits to add up, and by what.
type TotalQuery struct {
	// Policy, Key, Path, From and To are as in [CallQuery].
	Policy, Key, Path string
	From, To          time.Time
	// By is what to keep apart. Of times it is minutes, see [Total.At].
	By UsageBy
	// Same reports, if By is a time, whether two times need not be kept apart; then neither
	// need those between them. A log may ask it or not. Nil keeps apart all that are not of
	// one minute.
	Same func(a, b time.Time) bool
}

// Total is a sum over some of the hits that a query asks for. Sums of one group may
// come in any number of pieces.
type Total struct {
	// Group is the key, the policy or the path; "" if the query is by a time.
	Group string
	// At is, if the query is by a time, the time of one of the hits: all are of one
	// minute with it, or Same as it.
	At time.Time
	// Allowed and Refused are units, the largest int64 if they are more. What a policy in
	// shadow would have refused is in Refused.
	Allowed, Refused int64
	// Partial says that the log does not have all hits of the policy, see [Call.Coverage].
	Partial bool
}

// Matches reports whether the call is a hit that the query's filters let pass.
func (q *TotalQuery) Matches(c *Call) bool {
	filters := CallQuery{Policy: q.Policy, Key: q.Key, Path: q.Path, From: q.From, To: q.To}
	return c.Kind == CallHit && filters.Matches(c)
}

// Total is the sum over one call that the query asks for.
func (q *TotalQuery) Total(c *Call) Total {
	total := Total{Partial: c.Coverage != ""}
	switch q.By {
	case UsageByKey:
		total.Group = c.Key
	case UsageByPolicy:
		total.Group = c.Policy
	case UsageByPath:
		total.Group = c.Path
	default:
		total.At = c.At
	}
	if c.Allowed {
		total.Allowed = c.Units()
	} else {
		total.Refused = c.Units()
	}
	return total
}

// Add adds another sum of the same group, and keeps At.
func (t *Total) Add(other Total) {
	t.Allowed, t.Refused = AddUnits(t.Allowed, other.Allowed), AddUnits(t.Refused, other.Refused)
	t.Partial = t.Partial || other.Partial
}

// Totaler is implemented by logs that can add up hits faster than by returning them.
// Like the AuditLog it is safe for concurrent use.
type Totaler interface {
	// Totals passes every sum to add, one after the other and in any order, and does not
	// call it after it returns; with an error, what was passed is worth nothing. Calls
	// that are appended or removed meanwhile may be in it or not; all others are, once.
	Totals(ctx context.Context, query TotalQuery, add func(Total)) error
}

// ParseUsageOrder reads how groups of usage are ordered: "units" or "", those with most
// units first, or "refused", those with most refused ones. Anything else is an
// *InvalidError, and so is an order of times, which have theirs.
func ParseUsageOrder(text string, by UsageBy) (byRefused bool, err error) {
	switch {
	case text == "":
		return false, nil
	case by.IsTime():
		return false, &InvalidError{"order", fmt.Sprintf("has no meaning by %s", by)}
	case text == "units", text == "refused":
		return text == "refused", nil
	}
	return false, &InvalidError{"order", fmt.Sprintf("is %q, it must be units or refused", text)}
}
