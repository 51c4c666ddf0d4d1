package httpapi

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"

	"github.com/nene2-ft/ratelimitlog/application"
)

// DefaultPolicy is the policy that /ping is limited by, and /status shows unless
// it is asked for another.
const DefaultPolicy = "default"

// Server answers HTTP.
type Server struct {
	app     *fiber.App
	limiter *application.Limiter
	store   Pinger
	log     *zap.Logger
	timeout time.Duration

	stopping   atomic.Bool
	lastReload atomic.Value // string, see Reloaded
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

// New makes a server. It answers once it is given a listener.
func New(log *zap.Logger, limiter *application.Limiter, store Pinger) *Server {
	return newServer(log, limiter, store, defaultTimeout)
}

func newServer(log *zap.Logger, limiter *application.Limiter, store Pinger, timeout time.Duration) *Server {
	s := &Server{limiter: limiter, store: store, log: log, timeout: timeout}
	s.app = fiber.New(fiber.Config{
		DisableStartupMessage: true,
		CaseSensitive:         true,
		StrictRouting:         true,
		ReadBufferSize:        maxHeaderBytes,
		BodyLimit:             maxBodyBytes,
		ReadTimeout:           timeout,
		WriteTimeout:          timeout,
		IdleTimeout:           timeout,
		ErrorHandler:          s.noRoute,
	})
	s.app.Server().CloseOnShutdown = true
	s.get("/ping", s.ping)
	s.get("/status", s.status)
	s.get("/healthz", s.healthz)
	s.get("/readyz", s.readyz)
	s.route(fiber.MethodPost, "/v1/hits", s.hits)
	s.get("/v1/counters", s.counters)
	s.get("/v1/policies", s.policies)
	s.app.Server().Handler = s.refuseUnknownMethods(s.app.Handler())
	return s
}

// Serve answers on the listener until Shutdown, and closes it.
func (s *Server) Serve(l net.Listener) error {
	return s.app.Listener(listener{l, s.timeout / 30, &s.stopping})
}

// Shutdown takes no more connections and waits until the requests under way are
// answered or the context ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Store(true)
	return s.app.ShutdownWithContext(ctx)
}
