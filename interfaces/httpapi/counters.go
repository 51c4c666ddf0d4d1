package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// counters shows the counters of a key under all policies, or under one.
func (s *Server) counters(c *fiber.Ctx, _ string) error {
	query, key, err := keyQuery(c)
	if err != nil {
		return err
	}
	hit := domain.Hit{Key: key}
	if query.Has("policy") {
		policy, err := one(query, "policy", "")
		if err != nil {
			return err
		}
		hit.Policies = []string{policy}
	} else {
		for _, policy := range s.limiter.Policies() {
			hit.Policies = append(hit.Policies, policy.Name)
		}
	}
	decision, err := s.limiter.Hit(c.UserContext(), hit)
	if err != nil {
		return err
	}
	set(c, fiber.HeaderCacheControl, "no-store")
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte {
		b = problem.AppendString(append(b, `{"key":`...), decision.Key)
		return append(problem.AppendCounters(append(b, `,"counters":`...), &decision), '}')
	})
	return nil
}

// policies shows the policies in force.
func (s *Server) policies(c *fiber.Ctx, _ string) error {
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte {
		b = append(b, `{"policies":[`...)
		for i, p := range s.limiter.Policies() {
			if i > 0 {
				b = append(b, ',')
			}
			b = problem.AppendString(append(b, `{"name":`...), p.Name)
			b = problem.AppendUnits(append(b, `,"limit":`...), p.Limit)
			b = problem.AppendString(append(b, `,"window":`...), p.Schedule.String())
			b = append(b, '}')
		}
		return append(b, `]}`...)
	})
	return nil
}
