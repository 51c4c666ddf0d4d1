package httpapi

import (
	_ "embed"

	"github.com/gofiber/fiber/v2"
)

// Description is the description of the API, in OpenAPI 3.1: what the server answers
// at /openapi.yaml.
//
//go:embed openapi.yaml
var Description []byte

func (s *Server) description(c *fiber.Ctx, _ asked) error {
	c.Set(fiber.HeaderContentType, "application/yaml")
	return c.Send(Description)
}
