package httpapi

import (
	"fmt"
	"net/url"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

type status struct {
	Key         string        `json:"key"`
	Policy      string        `json:"policy"`
	Limit       problem.Units `json:"limit"`
	Count       int64         `json:"count"`
	Refused     int64         `json:"refused"`
	Remaining   problem.Units `json:"remaining"`
	WindowStart time.Time     `json:"window_start"`
	WindowEnd   time.Time     `json:"window_end"`
}

// status shows the counter of a key and changes nothing.
func (s *Server) status(c *fiber.Ctx, _ string) error {
	query, err := parseQuery(c)
	if err != nil {
		return err
	}
	key, err := one(query, "key", "")
	if err != nil {
		return err
	}
	policy, err := one(query, "policy", DefaultPolicy)
	if err != nil {
		return err
	}
	decision, err := s.limiter.Hit(c.UserContext(), domain.Hit{Key: key, Policies: []string{policy}})
	if err != nil {
		return err
	}
	p := decision.Policies[0]
	c.Set(fiber.HeaderCacheControl, "no-store")
	return c.JSON(status{
		Key: decision.Key, Policy: p.Policy, Limit: problem.Units(p.Limit), Count: p.Count, Refused: p.Refused,
		Remaining: problem.Units(p.Remaining()), WindowStart: p.Window.Start, WindowEnd: p.Window.End,
	})
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
