package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/cors"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// exposed are the headers of a decision, which browsers let scripts of other
// origins read only if they are told so.
var exposed = strings.Join([]string{
	"RateLimit", "RateLimit-Policy", "Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Unchecked", headerRequestID,
}, ", ")

// allowOrigins lets scripts of the origins, or of all if one is "*", use the API.
func allowOrigins(origins []string) (fiber.Handler, error) {
	for _, origin := range origins {
		if origin == "*" {
			continue
		}
		at, err := url.Parse(origin)
		if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || origin != at.Scheme+"://"+at.Host || strings.Contains(origin, "*") ||
			at.Scheme == "http" && at.Port() == "80" || at.Scheme == "https" && at.Port() == "443" {
			return nil, &domain.InvalidError{Field: "cors-origins", Reason: fmt.Sprintf("has %q, which is not what a browser sends, like https://app.example.com, nor *", origin)}
		}
	}
	if slices.Contains(origins, "*") {
		origins = []string{"*"}
	}
	return cors.New(cors.Config{
		AllowOrigins: strings.Join(origins, ","), ExposeHeaders: exposed, MaxAge: 600,
		AllowMethods: strings.Join([]string{fiber.MethodGet, fiber.MethodHead, fiber.MethodPost, fiber.MethodPut, fiber.MethodDelete}, ","),
	}), nil
}

// isPreflight reports whether a browser asks what it may send (Fetch standard,
// CORS-preflight request). That is no request of the client's, and never charged.
func isPreflight(c *fiber.Ctx) bool {
	header := &c.Request().Header
	return c.Method() == fiber.MethodOptions && len(header.Peek(fiber.HeaderOrigin)) > 0 && len(header.Peek(fiber.HeaderAccessControlRequestMethod)) > 0
}
