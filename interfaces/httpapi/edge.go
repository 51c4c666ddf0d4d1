package httpapi

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"

	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

const headerRequestID = "X-Request-ID"

// edge surrounds every handler: it names the request, turns a panic into an error
// and writes the access log (at level debug: api_calls has every hit already).
func (s *Server) edge(c *fiber.Ctx) (err error) {
	c.Set(headerRequestID, acceptRequestID(c.Get(headerRequestID)))
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
			s.log.Error("handler panicked", zap.Any("panic", r), zap.Stack("stack"), zap.String("request_id", requestID(c)))
		}
	}()
	err = c.Next()
	if entry := s.log.Check(zap.DebugLevel, "request"); entry != nil {
		entry.Write(zap.String("method", c.Method()), zap.String("path", c.Path()),
			zap.Int("status", c.Response().StatusCode()), zap.String("request_id", requestID(c)), zap.Error(err))
	}
	return err
}

// acceptRequestID is the client's own id if it is fit to be logged, 1 to 128
// visible ASCII characters, else a new one.
func acceptRequestID(id string) string {
	fit := id != "" && len(id) <= 128
	for i := 0; fit && i < len(id); i++ {
		fit = id[i] > ' ' && id[i] < 0x7f
	}
	if fit {
		return id
	}
	var random [16]byte
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	return hex.EncodeToString(random[:])
}

// requestID is the id that the edge has given, a copy.
func requestID(c *fiber.Ctx) string { return strings.Clone(c.GetRespHeader(headerRequestID)) }

// fail answers every error, also those of requests that reached no handler.
func (s *Server) fail(c *fiber.Ctx, err error) error {
	p := problemOf(err)
	p.Instance = strings.ToValidUTF8(string(c.Request().URI().PathOriginal()), "\uFFFD")
	if p.Status >= fiber.StatusInternalServerError {
		s.log.Error("request failed", zap.String("method", c.Method()), zap.String("path", p.Instance),
			zap.Int("status", p.Status), zap.String("request_id", requestID(c)), zap.Error(err))
	}
	return send(c, p)
}

// problemOf maps what handlers return: problems as they are, Fiber's own errors
// by their status, the rest as package problem does.
func problemOf(err error) problem.Problem {
	var ready asProblem
	var framework *fiber.Error
	switch {
	case errors.As(err, &ready):
		return problem.Problem(ready)
	case errors.As(err, &framework):
		p := problem.Of(framework.Code)
		p.Detail = details[framework.Code]
		return p
	}
	return problem.From(err)
}

// details say more about the statuses that Fiber answers with by itself.
var details = map[int]string{
	fiber.StatusBadRequest:                  "The request is not well-formed HTTP.",
	fiber.StatusNotFound:                    "There is nothing at this path.",
	fiber.StatusMethodNotAllowed:            "The path does not take this method; Allow says which it takes.",
	fiber.StatusRequestTimeout:              "The request did not arrive in time.",
	fiber.StatusRequestEntityTooLarge:       fmt.Sprintf("The body is larger than %d bytes.", maxBodyBytes),
	fiber.StatusRequestHeaderFieldsTooLarge: fmt.Sprintf("The header is larger than %d bytes.", maxHeaderBytes),
}

// asProblem lets a handler return a problem.
type asProblem problem.Problem

func (p asProblem) Error() string { return p.Detail }

func send(c *fiber.Ctx, p problem.Problem) error {
	if p.RetryAfter > 0 {
		c.Set(fiber.HeaderRetryAfter, strconv.FormatInt(p.RetryAfter, 10))
	}
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Status(p.Status)
	return c.JSON(p, problem.ContentType)
}
