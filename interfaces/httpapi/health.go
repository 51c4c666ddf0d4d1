package httpapi

import (
	"context"
	"fmt"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/domain"
)

type health struct {
	Status string `json:"status"`
	// LastReload is "ok", or "failed: " and why; empty without a policy file.
	LastReload string `json:"last_reload,omitempty"`
	// Revision is of the rules in force; empty in /healthz.
	Revision string `json:"revision,omitempty"`
}

// Reloaded is told the outcome of the last reading of the policy file, for /readyz.
// A file that is not right leaves the server ready, with the policies it had.
func (s *Server) Reloaded(err error) {
	outcome := "ok"
	if err != nil {
		outcome = "failed: " + err.Error()
	}
	s.lastReload.Store(outcome)
}

// healthz says that the process answers.
func (s *Server) healthz(c *fiber.Ctx, _ asked) error {
	set(c, fiber.HeaderCacheControl, "no-store")
	return c.JSON(health{Status: "ok"})
}

// readyz says that hits can be decided and looked at: the store takes a unit of
// work, and it can be read.
func (s *Server) readyz(c *fiber.Ctx, _ asked) error {
	ctx, cancel := context.WithTimeout(c.UserContext(), 2*time.Second)
	defer cancel()
	if err := s.limiter.Ping(ctx); err != nil {
		return fmt.Errorf("not ready to write: %w: %w", domain.ErrUnavailable, err)
	}
	if err := s.store.Ping(ctx); err != nil {
		return fmt.Errorf("not ready to read: %w: %w", domain.ErrUnavailable, err)
	}
	set(c, fiber.HeaderCacheControl, "no-store")
	lastReload, _ := s.lastReload.Load().(string)
	revision, _ := s.limiter.InForce()
	return c.JSON(health{Status: "ready", LastReload: lastReload, Revision: revision})
}
