package httpapi

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"
	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

const headerRequestID = "X-Request-ID"

// handler answers a request.
type handler func(c *fiber.Ctx, r asked) error

// asked is what is known of a request before it is handled.
type asked struct {
	id       string
	decision *domain.Decision // that allowed it; nil if no route limits it
	client   string           // who proved a role: the client's address as a key; "" where none was asked for
}

// get routes GET and HEAD of path to h.
func (s *Server) get(path string, h handler) {
	s.handled[path] = true
	s.app.Get(path, s.around(path, s.limited(h)))
}

// open routes GET and HEAD of path to h, and no route in force limits it: who watches
// the server must be answered, above all when it refuses much.
func (s *Server) open(path string, h handler) {
	s.app.Get(path, s.around(path, h))
}

// handle routes a method of path to h.
func (s *Server) handle(method, path string, h handler) {
	s.handled[path] = true
	s.app.Add(method, path, s.around(path, s.limited(h)))
}

// limited lets h answer what the routes in force allow.
func (s *Server) limited(h handler) handler {
	return func(c *fiber.Ctx, r asked) error {
		decision, routed, err := s.limiter.HitRoute(c.UserContext(), request{c}, origin(c, r.id))
		if err != nil {
			return err
		}
		if !routed {
			return h(c, r)
		}
		answer(c, &decision)
		if exceeded := decision.Exceeded(); exceeded != nil {
			refusal := problem.RateLimitExceeded(exceeded)
			send(c, &refusal)
			return nil
		}
		allowed := decision // of its own, so that refusals need no memory
		r.decision = &allowed
		return h(c, r)
	}
}

// around names the request, answers errors and panics of h, and writes the access
// log (at level debug: api_calls has every hit already).
func (s *Server) around(path string, h handler) fiber.Handler {
	return func(c *fiber.Ctx) error {
		id := begin(c)
		err := safely(h, c, asked{id: id})
		if err != nil {
			s.fail(c, id, err)
		}
		s.responded(path, c.Response().StatusCode())
		if entry := s.log.Check(zap.DebugLevel, "request"); entry != nil {
			entry.Write(zap.String("method", c.Method()), zap.String("path", path), zap.String("request_id", id),
				zap.Int("status", c.Response().StatusCode()), zap.NamedError("failure", err))
		}
		return nil
	}
}

// safely turns a panic of h into an error.
func safely(h handler, c *fiber.Ctx, asked asked) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return h(c, asked)
}

// begin sets the headers of every answer and returns the request's id: the
// client's own if it is fit to be logged, 1 to 128 visible ASCII characters, else
// a new one.
func begin(c *fiber.Ctx) string {
	set(c, fiber.HeaderXContentTypeOptions, "nosniff")
	id := string(c.Request().Header.Peek(headerRequestID))
	fit := id != "" && len(id) <= 128
	for i := 0; fit && i < len(id); i++ {
		fit = id[i] > ' ' && id[i] < 0x7f
	}
	if !fit {
		var random [16]byte
		binary.NativeEndian.PutUint64(random[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(random[8:], rand.Uint64())
		id = hex.EncodeToString(random[:])
	}
	set(c, headerRequestID, id)
	return id
}

// set sets a header of the answer, its name as it is spelled here.
func set(c *fiber.Ctx, name, value string) {
	c.Response().Header.SetCanonical(utils.UnsafeBytes(name), utils.UnsafeBytes(value)) // copies both
}

// refuseStrange answers what Fiber would answer by itself and not with a problem, methods
// that it does not know, and what it would read in its own way: see misframed.
func (s *Server) refuseStrange(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(request *fasthttp.RequestCtx) {
		var err error
		switch {
		case misframed(request.Request.Header.RawHeaders()):
			err = fiber.ErrBadRequest
		case !slices.Contains(fiber.DefaultMethods, utils.UnsafeString(request.Method())):
			err = fiber.ErrNotImplemented
		default:
			next(request)
			return
		}
		c := s.app.AcquireCtx(request)
		defer s.app.ReleaseCtx(c)
		s.noHandler(c, err)
		if err == fiber.ErrBadRequest {
			request.SetConnectionClose()
		}
	}
}

// misframed reports whether a header says more than once, or in a way that is not
// understood, where the request ends (RFC 9112 section 6.3): a proxy in front may have
// read it otherwise, and what follows would be another request to it.
func misframed(header []byte) bool {
	framed := false
	for len(header) > 0 {
		end := bytes.IndexByte(header, '\n') + 1
		if end == 0 {
			end = len(header)
		}
		line := header[:end]
		header = header[end:]
		if first := line[0] | 0x20; first != 'c' && first != 't' {
			continue // the way of most
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		chunks := bytes.EqualFold(name, []byte(fiber.HeaderTransferEncoding))
		if !chunks && !bytes.EqualFold(name, []byte(fiber.HeaderContentLength)) {
			continue
		}
		if framed || chunks && !bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked")) {
			return true
		}
		framed = true
	}
	return false
}

// endConnections tells clients of a server that stops to send it nothing more.
func (s *Server) endConnections(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(request *fasthttp.RequestCtx) {
		next(request)
		if s.stopping.Load() {
			request.SetConnectionClose()
		}
	}
}

// noHandler answers requests that reach no handler: Fiber's own errors. Routes limit
// them like any other, but for browsers that ask what they may send, and for other
// spellings of paths that have a handler: those do not reach it.
func (s *Server) noHandler(c *fiber.Ctx, err error) error {
	if isPreflight(c) {
		begin(c)
		c.Status(fiber.StatusNoContent)
		return nil
	}
	failed := func(*fiber.Ctx, asked) error { return err }
	switch e := (*fiber.Error)(nil); {
	case errors.As(err, &e) && unread[e.Code]:
		err = fiber.NewError(e.Code) // its own text may quote the request, with the secrets in it
	case e != nil && e.Code == fiber.StatusNotFound && s.misspelled(c):
	default:
		failed = s.limited(failed)
	}
	return s.around("", failed)(c)
}

// misspelled reports whether the request's path is that of a handler, spelled otherwise.
func (s *Server) misspelled(c *fiber.Ctx) bool {
	at := origin(c, "")
	routes, err := s.limiter.Routes(at.Method, at.Path)
	return err == nil && len(routes) > 0 && !slices.ContainsFunc(routes, func(r *domain.Route) bool { return !s.handled[r.Path] })
}

// fail answers an error, and logs it if it is the server's.
func (s *Server) fail(c *fiber.Ctx, id string, err error) {
	p := problemOf(err)
	_, answer := err.(asProblem) // a handler meant it: nothing has failed
	switch {
	case answer:
	case p.Status == fiber.StatusNotImplemented || p.Status < fiber.StatusInternalServerError:
	case p.Status == fiber.StatusServiceUnavailable && !s.outageLog.due(time.Now()):
	default:
		s.log.Error("request failed", zap.String("method", c.Method()), zap.ByteString("path", c.Request().URI().PathOriginal()),
			zap.Int("status", p.Status), zap.String("request_id", id), zap.Error(err))
	}
	send(c, &p)
}

// sometimes is true at most once a second: in an outage every request fails, and
// a line for each would only hide the others.
type sometimes struct{ last atomic.Int64 }

func (s *sometimes) due(now time.Time) bool {
	last := s.last.Load()
	return now.UnixNano()-last >= int64(time.Second) && s.last.CompareAndSwap(last, now.UnixNano())
}

// send answers with a problem.
func send(c *fiber.Ctx, p *problem.Problem) {
	if !unread[p.Status] {
		p.Instance = instance(c)
	}
	if p.RetryAfter > 0 {
		set(c, fiber.HeaderRetryAfter, strconv.FormatInt(p.RetryAfter, 10))
	}
	set(c, fiber.HeaderCacheControl, "no-store")
	c.Status(p.Status)
	body(c, problem.ContentType, p.AppendJSON)
}

// unread are the statuses of requests that could not be read as a whole: what path
// they were for is not known.
var unread = map[int]bool{
	fiber.StatusBadRequest: true, fiber.StatusRequestTimeout: true, fiber.StatusRequestEntityTooLarge: true, fiber.StatusRequestHeaderFieldsTooLarge: true,
}

// instance is the path as it was sent, for as long as c lives.
func instance(c *fiber.Ctx) string {
	return strings.ToValidUTF8(utils.UnsafeString(c.Request().URI().PathOriginal()), "\uFFFD")
}

// body answers with what write appends.
func body(c *fiber.Ctx, contentType string, write func([]byte) []byte) {
	response := c.Response()
	response.Header.SetContentType(contentType)
	response.SwapBody(write(response.SwapBody(nil)[:0])) // into memory that Fiber uses again
}

// problemOf maps what handlers return: problems as they are, Fiber's own errors
// by their status, the rest as package problem does.
func problemOf(err error) problem.Problem {
	switch err := err.(type) {
	case asProblem:
		return problem.Problem(err)
	case asUnreadLog:
		return problem.ReducedCapacity("The audit log could not be read.")
	case *fiber.Error:
		p := problem.Of(err.Code)
		p.Detail = details[err.Code]
		return p
	}
	return problem.From(err)
}

// asProblem lets a handler return a problem.
type asProblem problem.Problem

func (p asProblem) Error() string { return p.Detail }

// details say more about the statuses that Fiber answers with by itself.
var details = map[int]string{
	fiber.StatusBadRequest:                  "The request is not well-formed HTTP.",
	fiber.StatusNotFound:                    "There is nothing at this path.",
	fiber.StatusMethodNotAllowed:            "The path does not take this method; Allow says which it takes.",
	fiber.StatusNotImplemented:              "The method is not known.",
	fiber.StatusRequestTimeout:              "The request did not arrive in time.",
	fiber.StatusRequestEntityTooLarge:       fmt.Sprintf("The body is larger than %d bytes.", maxBodyBytes),
	fiber.StatusRequestHeaderFieldsTooLarge: fmt.Sprintf("The header is larger than %d bytes.", maxHeaderBytes),
}
