package httpapi

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// addingTimeout bounds what reads a part of the log of any size for one answer, so that
// the answer leaves before the connection is cut off.
const addingTimeout = 25 * time.Second

// adding is the context of such a request.
func adding(c *fiber.Ctx) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(c.UserContext(), addingTimeout, fmt.Errorf("not read within %s: %w", addingTimeout, domain.ErrUnavailable))
}

// timeParameter reads a time (RFC 3339), the zero time if there is none.
func timeParameter(values url.Values, name string) (time.Time, error) {
	if !values.Has(name) {
		return time.Time{}, nil
	}
	t, ok := domain.ParseTime(values.Get(name))
	if !ok {
		return t, &domain.InvalidError{Field: name, Reason: "must be a time with its offset like 2026-01-01T00:00:00Z or 2026-01-01T09:00:00%2B09:00"}
	}
	return t, domain.CheckTime(name, t)
}

// momentParameter is timeParameter, and lets seconds be left out: that is the whole
// minute.
func momentParameter(values url.Values, name string) (t time.Time, minute bool, err error) {
	if t, minute = domain.ParseMinute(values.Get(name)); minute {
		return t, true, domain.CheckTime(name, t)
	}
	t, err = timeParameter(values, name)
	return t, false, err
}

// parameters is named, and refuses parameters that are empty too.
func parameters(c *fiber.Ctx, known ...string) (url.Values, error) {
	values, err := named(c, known...)
	if err != nil {
		return nil, err
	}
	for _, name := range known {
		if values.Has(name) && values.Get(name) == "" {
			return nil, &domain.InvalidError{Field: name, Reason: "must not be empty"}
		}
	}
	return values, nil
}

// named reads the query. Parameters of other names are refused, and so are those that
// are sent twice: who misspells a filter must not be shown everything, nor reset it.
func named(c *fiber.Ctx, known ...string) (url.Values, error) {
	values, err := parseQuery(c)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, asProblem(problem.InvalidRequest(problem.Invalid{Detail: "there is no such parameter here", Parameter: name}))
		}
		if _, err := one(values, name, ""); err != nil {
			return nil, err
		}
	}
	return values, nil
}
