package ratelimitlog

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
)

// Server is the whole service: HTTP, limiter, store and the timer that prunes.
type Server struct {
	http    *httpapi.Server
	limiter *application.Limiter
	config  Config
	log     *zap.Logger
}

func newServer(http *httpapi.Server, limiter *application.Limiter, config Config, log *zap.Logger) *Server {
	return &Server{http: http, limiter: limiter, config: config, log: log}
}

// drainTime is how long requests under way may take once the server is told to stop.
const drainTime = 15 * time.Second

// Run answers on the listener, which it closes, until the context ends; then it
// answers the requests under way and returns nil. What was answered is in the
// store when the cleanup function that came with the server has returned.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer stop()
	if every := s.config.pruneEvery(); every > 0 {
		background.Go(func() { s.limiter.PruneEvery(ctx, every, s.reportPrune) })
	}

	served := make(chan error, 1)
	go func() { served <- s.http.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	s.log.Info("stopping")
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := s.http.Shutdown(draining); err != nil {
		return fmt.Errorf("stop: requests were still under way after %s: %w", drainTime, err)
	}
	return nil
}

func (s *Server) reportPrune(removed int, err error) {
	switch {
	case err != nil:
		s.log.Error("prune failed", zap.Int("removed", removed), zap.Error(err))
	case removed > 0:
		s.log.Info("pruned", zap.Int("windows", removed))
	}
}
