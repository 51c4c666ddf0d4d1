package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// policies shows the policies in force, and which revision of the rules that is.
func (s *Server) policies(c *fiber.Ctx, _ asked) error {
	revision, policies := s.limiter.InForce()
	set(c, fiber.HeaderCacheControl, "no-store")
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendPolicies(b, revision, policies) })
	return nil
}
