package ratelimitlog

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/policyfile"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
)

// Server is the whole service: HTTP, limiter, store and the timer that prunes.
type Server struct {
	http    *httpapi.Server
	limiter *application.Limiter
	rules   *application.Rules
	config  Config
	log     *zap.Logger
}

func newServer(http *httpapi.Server, limiter *application.Limiter, rules *application.Rules, config Config, log *zap.Logger) *Server {
	return &Server{http: http, limiter: limiter, rules: rules, config: config, log: log}
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

	if s.config.PolicyFile != "" {
		every := or(s.config.ReloadEvery, time.Second)
		background.Go(func() { policyfile.Watch(ctx, s.config.PolicyFile, every, s.reload) })
	}

	if s.config.HashKeys != "" && readByOthers(s.config.HashKeys) {
		s.log.Warn("the secret that keys are hashed with can be read by everybody", zap.String("file", s.config.HashKeys))
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

// reload puts rules from the file in force, all of them or none.
func (s *Server) reload(rules domain.Rules, err error) {
	if err == nil {
		rules, err = s.config.withDefaults(rules)
	}
	if err == nil {
		err = s.rules.Replace(rules)
	}
	s.http.Reloaded(err)
	if err != nil {
		s.log.Error("the policies are not changed", zap.Error(err))
		return
	}
	s.log.Info("policies in force", zap.String("file", s.config.PolicyFile), zap.Int("policies", len(rules.Policies)), zap.Int("routes", len(rules.Routes.All())))
}

func (s *Server) reportPrune(pruned application.Pruned, err error) {
	switch {
	case err != nil:
		s.log.Error("prune failed", zap.Int("windows", pruned.Windows), zap.Int("calls", pruned.Calls), zap.Error(err))
	case pruned != application.Pruned{}:
		s.log.Info("pruned", zap.Int("windows", pruned.Windows), zap.Int("calls", pruned.Calls))
	}
}
