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
}

// healthz says that the process answers.
func (s *Server) healthz(c *fiber.Ctx, _ string) error { return c.JSON(health{"ok"}) }

// readyz says that hits can be decided and looked at: the store takes a unit of
// work, and it can be read.
func (s *Server) readyz(c *fiber.Ctx, _ string) error {
	ctx, cancel := context.WithTimeout(c.UserContext(), 2*time.Second)
	defer cancel()
	if err := s.limiter.Ping(ctx); err != nil {
		return fmt.Errorf("not ready to write: %w: %w", domain.ErrUnavailable, err)
	}
	if err := s.store.Ping(ctx); err != nil {
		return fmt.Errorf("not ready to read: %w: %w", domain.ErrUnavailable, err)
	}
	return c.JSON(health{"ready"})
}
