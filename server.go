package ratelimitlog

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/metrics"
	"github.com/nene2-ft/ratelimitlog/infrastructure/policyfile"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
)

// Server is the whole service: HTTP, limiter, store and the timer that prunes.
type Server struct {
	http    *httpapi.Server
	limiter *application.Limiter
	history *application.History
	rules   *application.Rules
	config  Config
	metrics *metrics.Metrics
	log     *zap.Logger

	replaced chan struct{} // capacity 1: rules were put in force
}

func newServer(http *httpapi.Server, limiter *application.Limiter, history *application.History, rules *application.Rules, stores Stores, measured *metrics.Metrics, config Config, log *zap.Logger) *Server {
	measured.InForce(limiter.InForce())
	measured.Read(func() metrics.Readings { return read(limiter, stores) })
	return &Server{http: http, limiter: limiter, history: history, rules: rules, metrics: measured, config: config, log: log, replaced: make(chan struct{}, 1)}
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
	started := s.rules.Revision()
	background.Go(func() { s.logRules(ctx, started) })
	if s.config.PolicyFile != "" {
		every := or(s.config.ReloadEvery, time.Second)
		background.Go(func() {
			policyfile.Watch(ctx, s.config.PolicyFile, every, func(rules domain.Rules, err error) { s.reload(ctx, rules, err) })
		})
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
func (s *Server) reload(ctx context.Context, rules domain.Rules, err error) {
	if err == nil {
		rules, err = s.config.withDefaults(rules)
	}
	before := s.rules.Policies()
	if err == nil {
		err = s.limiter.ReplaceRules(ctx, rules, s.origin("RELOAD"))
	}
	s.http.Reloaded(err)
	s.metrics.Reloaded(err)
	if err != nil {
		s.log.Error("the policies are not changed", zap.Error(err))
		return
	}
	s.metrics.InForce(s.limiter.InForce())
	s.log.Info("policies in force", zap.String("file", s.config.PolicyFile), zap.Int("policies", len(rules.Policies)), zap.Int("routes", len(rules.Routes.All())), zap.String("revision", s.rules.Revision()))
	for _, policy := range before {
		if keeps := keepFlags(policy.Audit); keeps != "" && !named(rules.Policies, policy.Name) {
			s.warnOfLeftOver(policy.Name, keeps)
		}
	}
	select {
	case s.replaced <- struct{}{}:
	default:
	}
}

// logRetry is how long after a failure it is tried again to log the rules.
const logRetry = time.Second

// logRules has the audit log say which rules are in force, now and whenever they are
// replaced, until the context ends. They are in force whether it succeeds or not.
// started is the revision that the server began with.
func (s *Server) logRules(ctx context.Context, started string) {
	origin := s.origin("START")
	logged, seen, failed := "", "", false
	var since time.Time // when the revision was seen first
	for {
		var retry <-chan time.Time
		if revision := s.rules.Revision(); revision != logged {
			if revision != seen {
				seen, since = revision, s.limiter.Now()
			}
			if revision != started {
				origin.Method = "RELOAD"
			}
			switch err := s.limiter.LogRules(ctx, since, origin); {
			case err == nil:
				if logged == "" { // the log is there
					s.lookForLeftOver(ctx)
				}
				logged, failed, origin.Method = revision, false, "RELOAD"
			case ctx.Err() != nil:
				return
			default:
				if !failed {
					s.log.Error("the rules in force are not in the audit log yet", zap.Error(err))
				}
				failed, retry = true, time.After(logRetry)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.replaced:
		case <-retry:
		}
	}
}

// lookForLeftOver warns of what other policies left behind that were in force before
// the server started. The log does not say how long these kept their calls.
func (s *Server) lookForLeftOver(ctx context.Context) {
	names, err := s.history.LeftOver(ctx, s.rules.Policies())
	if err != nil && ctx.Err() == nil {
		s.log.Warn("cannot tell whether policies that are gone left calls behind", zap.Error(err))
	}
	for _, name := range names {
		s.warnOfLeftOver(name, " --keep ...")
	}
}

// warnOfLeftOver names the command that does what nobody does for a policy that is gone.
func (s *Server) warnOfLeftOver(policy, keeps string) {
	s.log.Warn("a policy is gone, and its calls are pruned no more: do it by hand as long as there are any",
		zap.String("policy", policy), zap.String("command", "ratelimitlog prune --policy "+policy+keeps))
}

// keepFlags is what the command prune is told of what is kept, "" for all.
func keepFlags(audit domain.Audit) (flags string) {
	if audit.Keep > 0 {
		flags += " --keep " + domain.FormatDuration(audit.Keep)
	}
	if audit.MaxRows > 0 {
		flags += " --max-rows " + strconv.FormatInt(audit.MaxRows, 10)
	}
	return flags
}

func named(policies []domain.Policy, name string) bool {
	return slices.ContainsFunc(policies, func(policy domain.Policy) bool { return policy.Name == name })
}

// origin is how the audit log tells that rules were put in force.
func (s *Server) origin(method string) domain.Origin {
	origin := domain.Origin{Method: method, Actor: actor()}
	if s.config.PolicyFile != "" {
		origin.Path = domain.LogText(filepath.Base(s.config.PolicyFile))
	}
	return origin
}

// actor is who the audit log says it is that puts rules in force: "serve HOST:PID".
func actor() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return domain.LogText(fmt.Sprintf("serve %s:%d", host, os.Getpid()))
}

func (s *Server) reportPrune(pruned application.Pruned, err error) {
	switch {
	case err != nil:
		s.log.Error("prune failed", zap.Int("windows", pruned.Windows), zap.Int("calls", pruned.Calls), zap.Error(err))
	case pruned != application.Pruned{}:
		s.log.Info("pruned", zap.Int("windows", pruned.Windows), zap.Int("calls", pruned.Calls))
	}
}
