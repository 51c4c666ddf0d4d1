package httpapi

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"go.uber.org/zap"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
)

// Server answers HTTP.
type Server struct {
	app       *fiber.App
	limiter   *application.Limiter
	history   *application.History
	explainer *application.Explainer
	store     Pinger
	log       *zap.Logger
	guard     *guard
	handled   map[string]bool // paths that have a handler
	timeout   time.Duration
	responded func(route string, code int)

	exports    *exports
	outageLog  sometimes
	stopping   atomic.Bool
	silent     silent
	listener   atomic.Pointer[listener] // nil until Serve
	lastReload atomic.Value             // string, see Reloaded
}

// Pinger is what readiness depends on.
type Pinger interface {
	// Ping reports why hits cannot be decided, or nil.
	Ping(ctx context.Context) error
}

// Bounds on what a client may send and how long it may take.
const (
	maxHeaderBytes = 16 << 10
	maxBodyBytes   = 64 << 10
	// defaultTimeout bounds the time for a whole request from its first byte, for an
	// answer to be taken, and between requests on a connection.
	defaultTimeout = 30 * time.Second
)

// Options tune a server. The zero value is good.
type Options struct {
	Tokens Tokens
	// CORSOrigins are the origins like https://app.example.com whose scripts may use
	// the API, "*" being all. Default: none.
	CORSOrigins []string
	// Pages answer GET and HEAD of further paths, which neither a route nor a token is
	// asked for. Default: none.
	Pages map[string]http.Handler
	// Responded is told of each answer: the path that its handler is registered with, ""
	// if there is none, and the status code. Default: nobody is.
	Responded func(route string, code int)

	timeout time.Duration // defaultTimeout if it is 0
}

// New makes a server. It answers once it is given a listener. Options that make no
// sense are an *[domain.InvalidError].
func New(log *zap.Logger, limiter *application.Limiter, history *application.History, store Pinger, options Options) (*Server, error) {
	s := &Server{
		limiter: limiter, history: history, explainer: application.NewExplainer(limiter, history), store: store,
		log: log, timeout: cmp.Or(options.timeout, defaultTimeout), handled: map[string]bool{}, responded: options.Responded, exports: newExports(),
	}
	if s.responded == nil {
		s.responded = func(string, int) {}
	}
	var err error
	if s.guard, err = newGuard(options.Tokens, log); err != nil {
		return nil, err
	}
	s.app = fiber.New(fiber.Config{
		DisableStartupMessage: true,
		CaseSensitive:         true,
		StrictRouting:         true,
		ReadBufferSize:        maxHeaderBytes,
		BodyLimit:             maxBodyBytes,
		ReadTimeout:           s.timeout,
		WriteTimeout:          s.timeout,
		IdleTimeout:           s.timeout,
		ErrorHandler:          s.noHandler,
	})
	s.app.Server().CloseOnShutdown = true
	if len(options.CORSOrigins) > 0 {
		allow, err := allowOrigins(options.CORSOrigins)
		if err != nil {
			return nil, err
		}
		s.app.Use(allow)
	}
	s.get(domain.PingPath, s.ping)
	s.get("/status", s.only(client, s.status))
	s.open("/healthz", s.healthz)
	s.open("/readyz", s.readyz)
	s.open("/openapi.yaml", s.description)
	for path, page := range options.Pages {
		answer := adaptor.HTTPHandler(page)
		s.app.Get(path, s.around(firstOf(path), func(c *fiber.Ctx, _ asked) error { return answer(c) }))
	}
	s.handle(fiber.MethodPost, "/v1/hits", s.only(client, s.hits))
	s.get("/v1/counters", s.only(client, s.counters))
	s.handle(fiber.MethodDelete, "/v1/counters", s.only(admin, s.reset))
	s.get("/v1/quotas", s.only(admin, s.quotas))
	s.handle(fiber.MethodPut, "/v1/quotas", s.only(admin, s.setQuota))
	s.handle(fiber.MethodDelete, "/v1/quotas", s.only(admin, s.unsetQuota))
	s.get("/v1/policies", s.only(client, s.policies))
	s.get("/v1/usage", s.only(audit, s.usage))
	s.get("/v1/explain", s.only(audit, s.explain))
	s.get("/v1/calls", s.only(audit, s.calls))
	s.get("/v1/calls/:id", s.only(audit, s.call))
	s.app.Server().Handler = s.endConnections(s.refuseStrange(s.app.Handler()))
	return s, nil
}

// firstOf is a path up to its second slash: what a page consists of is one to who
// counts and logs.
func firstOf(path string) string {
	if i := strings.IndexByte(path[1:], '/'); i >= 0 {
		return path[:i+1]
	}
	return path
}

// Serve answers on the listener until Shutdown, and closes it.
func (s *Server) Serve(l net.Listener) error {
	ours := newListener(l, s.timeout/30, &s.stopping, &s.silent)
	s.listener.Store(ours)
	if s.stopping.Load() {
		return ours.Close()
	}
	return s.app.Listener(ours)
}

// Shutdown takes no more connections and waits until the requests under way are
// answered or the context ends. Answers of any length are cut off before it does.
//
// Before that it answers for a moment as ever, but tells each client to ask nothing more
// on its connection: one that is closed without that word may have a request on it.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Store(true)
	if l := s.listener.Load(); l != nil {
		defer l.Close() // should the server not have got it yet
		l.stop()
		s.tellAll(ctx, l)
	}
	s.silent.end()
	defer s.exports.endBefore(ctx)()
	return s.app.ShutdownWithContext(ctx)
}

// tellAll waits until no connection is left, as most have been told to end, or lastWait
// is over.
func (s *Server) tellAll(ctx context.Context, l *listener) {
	for begun := time.Now(); time.Since(begun) < lastWait && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if s.app.Server().GetOpenConnectionsCount() == 0 && len(l.waiting) == 0 {
			return
		}
	}
}
