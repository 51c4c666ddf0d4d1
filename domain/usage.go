package domain

import (
	"context"
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

// TotalQuery says which hits to add up, and by what.
type TotalQuery struct {
	// Policy, Key, Path, From and To are as in [CallQuery].
	Policy, Key, Path string
	From, To          time.Time
	// By is what to keep apart. Of times it is minutes, see [Total.At].
	By UsageBy
	// Same, of By that is a time, reports whether two times need not be kept apart. Nil: all
	// must that are not of one minute.
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
	// Allowed and Refused are units. What a policy in shadow would have refused is in Refused.
	Allowed, Refused int64
	// Partial says that the log does not have all hits of the policy, see [Call.Coverage].
	Partial bool
}

// Totaler is implemented by logs that can add up hits faster than by returning them.
// Like the AuditLog it is safe for concurrent use.
type Totaler interface {
	// Totals passes every sum to add, which is not called after it returns. Hits that
	// are appended meanwhile may be in it or not.
	Totals(ctx context.Context, query TotalQuery, add func(Total)) error
}
