package httpapi

import (
	"cmp"

	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// explain says why a key was refused at a time, or would have been.
func (s *Server) explain(c *fiber.Ctx, _ asked) error {
	values, err := parameters(c, "key", "policy", "at")
	if err != nil {
		return err
	}
	at, err := timeParameter(values, "at")
	if err != nil {
		return err
	}
	ctx, cancel := adding(c)
	defer cancel()
	explanation, err := s.explainer.Explain(ctx, values.Get("key"), cmp.Or(values.Get("policy"), domain.DefaultPolicy), at)
	if err != nil {
		return err
	}
	set(c, fiber.HeaderCacheControl, "no-store")
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendExplanation(b, &explanation) })
	return nil
}
