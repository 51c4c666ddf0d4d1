package httpapi

import (
	"fmt"
	"net/url"

	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// status shows the counter of a key and changes nothing.
func (s *Server) status(c *fiber.Ctx, _ asked) error {
	query, err := named(c, "key", "policy")
	if err != nil {
		return err
	}
	policy, err := one(query, "policy", domain.DefaultPolicy)
	if err != nil {
		return err
	}
	decision, err := s.limiter.Counters(c.UserContext(), query.Get("key"), policy)
	if err != nil {
		return err
	}
	set(c, fiber.HeaderCacheControl, "no-store")
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendStatus(b, &decision) })
	return nil
}

// parseQuery reads the query strictly: what is not well-formed is an error, not
// taken for something else.
func parseQuery(c *fiber.Ctx) (url.Values, error) {
	query, err := url.ParseQuery(string(c.Request().URI().QueryString()))
	if err != nil {
		return nil, asProblem(problem.InvalidRequest(problem.Invalid{Detail: fmt.Sprintf("the query is malformed: %v", err)}))
	}
	return query, nil
}

// one is the value of a parameter that may be sent once.
func one(query url.Values, name, absent string) (string, error) {
	values := query[name]
	switch len(values) {
	case 0:
		return absent, nil
	case 1:
		return values[0], nil
	}
	return "", asProblem(problem.InvalidRequest(problem.Invalid{
		Detail: "the parameter must not be sent more than once", Parameter: name,
	}))
}
