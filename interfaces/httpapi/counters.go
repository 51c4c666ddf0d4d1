package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// counters shows the counters of a key under all policies, or under one.
func (s *Server) counters(c *fiber.Ctx, _ asked) error {
	key, policies, err := countersQuery(c)
	if err != nil {
		return err
	}
	decision, err := s.limiter.Counters(c.UserContext(), key, policies...)
	if err != nil {
		return err
	}
	set(c, fiber.HeaderCacheControl, "no-store")
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendCounters(b, &decision) })
	return nil
}

// reset forgets the counters of a key under all policies, or under one.
func (s *Server) reset(c *fiber.Ctx, r asked) error {
	key, policies, err := countersQuery(c)
	if err != nil {
		return err
	}
	origin := change(c, "/v1/counters", r)
	if policies == nil {
		err = s.limiter.ResetAll(c.UserContext(), key, origin)
	} else {
		err = s.limiter.Reset(c.UserContext(), domain.Hit{Key: key, Policies: policies, Origin: origin})
	}
	if err != nil {
		return err
	}
	set(c, fiber.HeaderCacheControl, "no-store")
	c.Status(fiber.StatusNoContent)
	return nil
}

// countersQuery reads which counters a request is about; no policies are all.
func countersQuery(c *fiber.Ctx) (key string, policies []string, err error) {
	query, err := named(c, "key", "policy")
	if err != nil || !query.Has("policy") {
		return query.Get("key"), nil, err
	}
	return query.Get("key"), []string{query.Get("policy")}, nil
}
