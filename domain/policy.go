package domain

import (
	"fmt"
	"math"
	"strconv"
)

// MaxUnits is the largest limit and the largest cost: the largest integer that a
// structured header field can carry (RFC 9651 section 3.3.1).
const MaxUnits = 999_999_999_999_999

// Unlimited is the limit of a policy that counts and never refuses. It is written
// "unlimited"; 0 is a limit like any other and blocks everything.
const Unlimited = math.MaxInt64

// DefaultPolicy is the name of the policy that applies where none is named.
const DefaultPolicy = "default"

// Policy is a named limit: at most Limit units per window of Schedule.
type Policy struct {
	Name     string
	Limit    int64
	Schedule Schedule
	// Shadow makes the policy count as always and refuse nothing: what it would have
	// refused is counted as refused, and does not keep the hit from passing.
	Shadow bool
	// FailOpen lets hits pass unchecked that the store cannot decide. Without it they
	// are not decided, which is an error: a limit that lets everything through
	// whenever its store is slow protects nothing.
	FailOpen bool
	// Audit says what the log has of the policy's hits.
	Audit Audit
}

// NewPolicy checks the parts of a policy and puts them together. The name is 1
// to 64 of the characters A-Z a-z 0-9 . _ - and does not start with one of the
// last three; the limit is 0 to [MaxUnits], or [Unlimited]. A part that is wrong
// is an *InvalidError that names the policy.
func NewPolicy(name string, limit int64, schedule Schedule) (Policy, error) {
	if err := CheckPolicyName(name); err != nil {
		return Policy{}, err
	}
	if !isLimit(limit) {
		return Policy{}, &InvalidError{"limit", fmt.Sprintf("of policy %s is %d, it must be 0 to %d or unlimited", name, limit, int64(MaxUnits))}
	}
	if schedule.schedule == nil {
		return Policy{}, &InvalidError{"window", fmt.Sprintf("of policy %s is missing", name)}
	}
	return Policy{Name: name, Limit: limit, Schedule: schedule}, nil
}

// isLimit reports whether limit is one that a policy or a quota may have.
func isLimit(limit int64) bool { return limit == Unlimited || limit >= 0 && limit <= MaxUnits }

// CheckPolicyName reports with an *InvalidError what keeps name from naming a
// policy. See [NewPolicy] for the rule.
func CheckPolicyName(name string) error {
	if name == "" || len(name) > 64 {
		return &InvalidError{"policy", fmt.Sprintf("name must have 1 to 64 characters, it has %d", len(name))}
	}
	for i, c := range []byte(name) {
		switch {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return &InvalidError{"policy", fmt.Sprintf("name %q has %q at byte %d; it is made of letters, digits, and . _ - after the first", name, c, i)}
		}
	}
	return nil
}

// ParseLimit reads a limit: a whole number from 0 to [MaxUnits], or "unlimited".
// Anything else is an *InvalidError.
func ParseLimit(text string) (int64, error) {
	if text == "unlimited" {
		return Unlimited, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > MaxUnits || len(text) > 1 && text[0] == '0' { // 010 is 8 to some
		return 0, &InvalidError{"limit", fmt.Sprintf("%q is not a whole number from 0 to %d, nor unlimited", text, int64(MaxUnits))}
	}
	return int64(n), nil
}

// FormatLimit writes a limit so that [ParseLimit] reads it back.
func FormatLimit(limit int64) string {
	if limit == Unlimited {
		return "unlimited"
	}
	return strconv.FormatInt(limit, 10)
}
