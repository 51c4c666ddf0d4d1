package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// policies shows the policies in force.
func (s *Server) policies(c *fiber.Ctx, _ asked) error {
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendPolicies(b, s.limiter.Policies()) })
	return nil
}
