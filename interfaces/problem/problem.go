package problem

import (
	"errors"
	"net/http"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// ContentType is the media type of a problem.
const ContentType = "application/problem+json"

// Types of problems that are more than their status says. Their texts are in
// docs/problems.md. The last one is registered by
// draft-ietf-httpapi-ratelimit-headers section 5.
const (
	TypeRateLimitExceeded = base + "rate-limit-exceeded"
	TypeInvalidRequest    = base + "invalid-request"
	TypeUnknownPolicy     = base + "unknown-policy"
	TypeNoQuota           = base + "no-quota"
	TypeUnknownCall       = base + "unknown-call"
	TypeReducedCapacity   = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"

	base = "https://github.com/nene2-ft/ratelimitlog/problems/"
)

// Problem is an error as a client sees it (RFC 9457). [Problem.AppendJSON] writes it.
type Problem struct {
	Type     string
	Title    string
	Status   int
	Detail   string
	Instance string // the path of the request

	// Errors says what was wrong with a request, part by part.
	Errors []Invalid
	// Exceeded is the refusal that a 429 tells of: its members policy, limit,
	// window_seconds, retry_after and violated-policies. Else nil.
	Exceeded *domain.RateLimitExceeded

	// Decision, of a 429, adds its members allowed, key, cost and policies. Nil leaves them out.
	Decision *domain.Decision

	// RetryAfter is sent as the header Retry-After, in seconds, unless it is 0.
	RetryAfter int64
}

// Invalid is one part of a request that was wrong.
type Invalid struct {
	Detail string
	// Pointer is the place in a JSON body, as a JSON Pointer in a URI fragment.
	Pointer string
	// Parameter is the name of the query parameter or header.
	Parameter string
}

// retrySoon is the Retry-After, in seconds, of a failure that may be over any moment.
const retrySoon = 1

// From maps an error to a problem. An error that is none of the domain's is a
// 500 that says nothing of it.
func From(err error) Problem {
	var (
		exceeded *domain.RateLimitExceeded
		invalid  *domain.InvalidError
		notFound *domain.NotFoundError
	)
	switch {
	case errors.As(err, &exceeded):
		return RateLimitExceeded(exceeded)
	case errors.As(err, &invalid):
		return InvalidRequest(Invalid{Detail: invalid.Error(), Parameter: invalid.Field})
	case errors.As(err, &notFound) && notFound.Kind == "quota":
		return Problem{Type: TypeNoQuota, Title: "No Quota", Status: http.StatusNotFound, Detail: "The key has no limit of its own under this policy."}
	case errors.As(err, &notFound) && notFound.Kind == "call":
		return Problem{Type: TypeUnknownCall, Title: "Unknown Call", Status: http.StatusNotFound, Detail: "There is no call of this ID, or it is kept no more."}
	case errors.As(err, &notFound):
		return Problem{Type: TypeUnknownPolicy, Title: "Unknown Policy", Status: http.StatusNotFound, Detail: notFound.Error()}
	case errors.Is(err, domain.ErrNotFound):
		return Of(http.StatusNotFound)
	case errors.Is(err, domain.ErrOverloaded):
		return ReducedCapacity("Too many requests are waiting for a decision.")
	case errors.Is(err, domain.ErrUnavailable):
		return ReducedCapacity("The rate limit could not be checked.")
	}
	return Of(http.StatusInternalServerError)
}

// RateLimitExceeded is the problem of a hit that was refused.
func RateLimitExceeded(e *domain.RateLimitExceeded) Problem {
	return Problem{
		Type: TypeRateLimitExceeded, Title: http.StatusText(http.StatusTooManyRequests), Status: http.StatusTooManyRequests,
		Detail: e.Error(), Exceeded: e, RetryAfter: e.RetryAfter,
	}
}

// InvalidRequest is the problem of a request that makes no sense.
func InvalidRequest(errs ...Invalid) Problem {
	return Problem{
		Type: TypeInvalidRequest, Title: "Invalid Request", Status: http.StatusUnprocessableEntity,
		Detail: errs[0].Detail, Errors: errs,
	}
}

// ReducedCapacity is the problem of a request that may pass if it is sent again.
func ReducedCapacity(detail string) Problem {
	return Problem{
		Type: TypeReducedCapacity, Title: "Temporary Reduced Capacity", Status: http.StatusServiceUnavailable,
		Detail: detail, RetryAfter: retrySoon,
	}
}

// Of is the problem that says no more than its status.
func Of(status int) Problem {
	return Problem{Type: "about:blank", Title: http.StatusText(status), Status: status}
}
