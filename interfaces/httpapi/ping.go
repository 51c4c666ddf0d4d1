package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// ping is the limited demo endpoint: it shows what its route decided.
func (s *Server) ping(c *fiber.Ctx, r asked) error {
	if r.decision == nil { // never without a limit
		return fiber.ErrNotFound
	}
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendPong(b, r.decision) })
	return nil
}
