package httpapi

import (
	"strconv"
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

// ping is the limited demo endpoint. The client chooses its key, which therefore
// protects nothing.
func (s *Server) ping(c *fiber.Ctx, requestID string) error {
	key, err := clientKey(c)
	if err != nil {
		return err
	}
	decision, err := s.limiter.Hit(c.UserContext(), domain.Hit{
		Key: key, Policies: defaultPolicies, Cost: 1,
		Method: method(c), Path: "/ping", RequestID: requestID,
	})
	if err != nil {
		return headerProblem(err)
	}
	answer(c, &decision)
	if exceeded := decision.Exceeded(); exceeded != nil {
		refusal := problem.RateLimitExceeded(exceeded)
		send(c, &refusal)
		return nil
	}
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return appendPong(b, &decision) })
	return nil
}

// appendPong appends the answer to a ping that was allowed.
func appendPong(b []byte, d *domain.Decision) []byte {
	p := &d.Policies[0]
	b = problem.AppendString(append(b, `{"message":"pong","key":`...), d.Key)
	b = problem.AppendString(append(b, `,"policy":`...), p.Policy)
	b = problem.AppendUnits(append(b, `,"limit":`...), p.Limit)
	b = strconv.AppendInt(append(b, `,"count":`...), p.Count, 10)
	b = problem.AppendUnits(append(b, `,"remaining":`...), p.Remaining())
	b = p.Window.End.AppendFormat(append(b, `,"reset_at":"`...), time.RFC3339)
	return append(b, `"}`...)
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

// method is the request's method, which is GET or HEAD.
func method(c *fiber.Ctx) string {
	if c.Request().Header.IsHead() {
		return fiber.MethodHead
	}
	return fiber.MethodGet
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
