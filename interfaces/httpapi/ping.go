package httpapi

import (
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

const (
	headerClientKey = "X-Client-Key"
	// anonymous is the key of every client that sends none.
	anonymous = "127.0.0.1"
)

type pong struct {
	Message   string        `json:"message"`
	Key       string        `json:"key"`
	Policy    string        `json:"policy"`
	Limit     problem.Units `json:"limit"`
	Count     int64         `json:"count"`
	Remaining problem.Units `json:"remaining"`
	ResetAt   time.Time     `json:"reset_at"`
}

// ping is the limited demo endpoint. The client chooses its key, which therefore
// protects nothing.
func (s *Server) ping(c *fiber.Ctx) error {
	key, err := clientKey(c)
	if err != nil {
		return err
	}
	decision, err := s.limiter.Hit(c.UserContext(), domain.Hit{
		Key: key, Policies: defaultPolicies, Cost: 1,
		Method: strings.Clone(c.Method()), Path: strings.Clone(c.Path()), RequestID: requestID(c),
	})
	if err != nil {
		return headerProblem(err)
	}
	problem.Headers(decision, c.Set)
	if err := decision.Err(); err != nil {
		return err
	}
	p := decision.Policies[0]
	return c.JSON(pong{
		Message: "pong", Key: decision.Key, Policy: p.Policy, Limit: problem.Units(p.Limit), Count: p.Count,
		Remaining: problem.Units(p.Remaining()), ResetAt: p.Window.End,
	})
}

var defaultPolicies = []string{DefaultPolicy}

// clientKey is the value of X-Client-Key without the blanks that HTTP allows
// around it, or the anonymous key if there is none.
func clientKey(c *fiber.Ctx) (string, error) {
	lines := c.Request().Header.PeekAll(headerClientKey)
	if len(lines) > 1 {
		return "", asProblem(problem.InvalidRequest(problem.Invalid{
			Detail: "the header must not be sent more than once", Parameter: headerClientKey,
		}))
	}
	key := ""
	if len(lines) == 1 {
		key = strings.Trim(string(lines[0]), " \t")
	}
	if key == "" {
		return anonymous, nil
	}
	return key, nil
}

// headerProblem names the header instead of the key that came from it.
func headerProblem(err error) error {
	p := problemOf(err)
	for i := range p.Errors {
		if p.Errors[i].Parameter == "key" {
			p.Errors[i].Parameter = headerClientKey
			return asProblem(p)
		}
	}
	return err
}
