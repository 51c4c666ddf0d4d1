package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// counters shows the counters of a key under all policies, or under one.
func (s *Server) counters(c *fiber.Ctx, _ asked) error {
	hit, err := s.countersQuery(c)
	if err != nil {
		return err
	}
	decision, err := s.limiter.Hit(c.UserContext(), hit)
	if err != nil {
		return err
	}
	set(c, fiber.HeaderCacheControl, "no-store")
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendCounters(b, &decision) })
	return nil
}

// reset forgets the counters of a key under all policies, or under one.
func (s *Server) reset(c *fiber.Ctx, r asked) error {
	hit, err := s.countersQuery(c)
	if err != nil {
		return err
	}
	hit.Origin = domain.Origin{Method: method(c), Path: "/v1/counters", RequestID: r.id}
	if err := s.limiter.Reset(c.UserContext(), hit); err != nil {
		return err
	}
	c.Status(fiber.StatusNoContent)
	return nil
}

// countersQuery reads which counters a request is about.
func (s *Server) countersQuery(c *fiber.Ctx) (domain.Hit, error) {
	query, key, err := keyQuery(c)
	if err != nil {
		return domain.Hit{}, err
	}
	hit := domain.Hit{Key: key}
	if query.Has("policy") {
		policy, err := one(query, "policy", "")
		hit.Policies = []string{policy}
		return hit, err
	}
	for _, policy := range s.limiter.Policies() {
		hit.Policies = append(hit.Policies, policy.Name)
	}
	return hit, nil
}

// policies shows the policies in force.
func (s *Server) policies(c *fiber.Ctx, _ asked) error {
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendPolicies(b, s.limiter.Policies()) })
	return nil
}
