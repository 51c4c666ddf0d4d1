package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// explain says why a key was refused at a time, or would have been.
func (s *Server) explain(c *fiber.Ctx, _ asked) error {
	values, err := parameters(c, "key", "policy", "at")
	if err != nil {
		return err
	}
	query := application.ExplainQuery{Key: values.Get("key"), Policy: values.Get("policy")}
	if query.At, query.Minute, err = momentParameter(values, "at"); err != nil {
		return err
	}
	ctx, cancel := adding(c)
	defer cancel()
	explanation, err := s.explainer.Explain(ctx, query)
	if err != nil {
		return err
	}
	set(c, fiber.HeaderCacheControl, "no-store")
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendExplanation(b, &explanation) })
	return nil
}
