package httpapi

import (
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// hits decides a hit against one or more policies:
//
//	{"key":"alice","policies":["burst","daily"],"cost":1}
func (s *Server) hits(c *fiber.Ctx, r asked) error {
	if len(c.Request().URI().QueryString()) > 0 { // hardly ever: the others need no memory for it
		if _, err := named(c); err != nil {
			return err
		}
	}
	hit, err := readHit(c.BodyRaw()) // never unpacked: what is small on the wire may be huge
	if err != nil {
		return err
	}
	hit.Origin = domain.Origin{Method: fiber.MethodPost, Path: "/v1/hits", RequestID: r.id}
	decision, err := s.limiter.Hit(c.UserContext(), hit)
	if err != nil {
		return bodyProblem(err)
	}
	answer(c, &decision)
	if exceeded := decision.Exceeded(); exceeded != nil {
		refusal := problem.RateLimitExceeded(exceeded)
		refusal.Decision = &decision
		send(c, &refusal)
		return nil
	}
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendDecision(b, &decision) })
	return nil
}

// answer sets the headers of a decision.
func answer(c *fiber.Ctx, decision *domain.Decision) {
	problem.Headers(decision, func(name string, value []byte) {
		c.Response().Header.SetCanonical(utils.UnsafeBytes(name), value) // copies both
	})
}

// bodyProblem names the place in the body instead of the part of the hit.
func bodyProblem(err error) error {
	p := problemOf(err)
	if len(p.Errors) == 0 {
		return err
	}
	for i := range p.Errors {
		p.Errors[i].Pointer, p.Errors[i].Parameter = "#/"+p.Errors[i].Parameter, ""
	}
	return asProblem(p)
}

func readHit(text []byte) (domain.Hit, error) {
	hit := domain.Hit{Cost: 1}
	err := readObject(text, map[string]func(value) error{
		"key":      func(v value) (err error) { hit.Key, err = v.text(); return err },
		"policies": func(v value) (err error) { hit.Policies, err = v.texts(); return err },
		"cost":     func(v value) (err error) { hit.Cost, err = v.integer(); return err },
	}, "key", "policies")
	return hit, err
}
