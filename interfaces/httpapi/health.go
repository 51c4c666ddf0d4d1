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

// readyz says that the store answers too.
func (s *Server) readyz(c *fiber.Ctx, _ string) error {
	ctx, cancel := context.WithTimeout(c.UserContext(), 2*time.Second)
	defer cancel()
	if err := s.store.Ping(ctx); err != nil {
		return fmt.Errorf("not ready: %w: %w", domain.ErrUnavailable, err)
	}
	return c.JSON(health{"ready"})
}
