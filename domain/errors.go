package domain

import (
	"errors"
	"fmt"
	"strconv"
)

// The errors a caller can tell apart, with errors.Is. The typed ones are
// *InvalidError, *NotFoundError and *RateLimitExceeded, with errors.As.
var (
	// ErrNotFound matches every *NotFoundError.
	ErrNotFound = errors.New("not found")
	// ErrOverloaded says that too many hits wait for the store already. The hit
	// was not counted.
	ErrOverloaded = errors.New("too many hits are waiting")
	// ErrUnavailable says that the store could not answer, or not in time. The
	// hit may have been counted.
	ErrUnavailable = errors.New("the store is unavailable")
)

// InvalidError says which part of the input was wrong and why. Nothing was
// counted or changed.
type InvalidError struct {
	// Field names the part in the words of this package: key, cost, policy, limit, window.
	Field string
	// Reason completes the sentence that Field begins: "must not be empty".
	Reason string
}

func (e *InvalidError) Error() string { return e.Field + " " + e.Reason }

// NotFoundError says what was asked for and does not exist.
type NotFoundError struct {
	Kind string // "policy", "quota" or "call"
	Name string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("there is no %s named %q", e.Kind, e.Name) }

// Is makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// RateLimitExceeded is a refusal as an error. [Decision.Err] makes it.
type RateLimitExceeded struct {
	Key string
	// Policy is the refusing policy that keeps the client waiting longest.
	Policy string
	// Limit is the policy's limit in units.
	Limit int64
	// Window is the policy's window that is used up.
	Window Window
	// RetryAfter is how long to wait, in whole seconds, at least 1.
	RetryAfter int64
	// Violated names every policy that refused, in the order of the hit.
	Violated []string
}

// Error is fit to be shown to the client that was refused.
func (e *RateLimitExceeded) Error() string {
	text := make([]byte, 0, 96+len(e.Key)) // by hand: under a flood this is the text most written
	text = strconv.AppendInt(append(text, "Rate limit of "...), e.Limit, 10)
	text = strconv.AppendInt(append(text, " requests per "...), e.Window.Seconds(), 10)
	text = append(append(text, "s exceeded for key '"...), e.Key...)
	return string(append(text, "'."...))
}
