package ratelimitlog

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/policyfile"
)

// Config says what to build. The zero value is the default of every field.
type Config struct {
	// DSN names the store: "sqlite:path/to/file" or "sqlite::memory:",
	// "postgres://user:password@host/database", or "redis://host:port" for the counters
	// alone. Default "sqlite:ratelimitlog.db", a file in the working directory.
	DSN string
	// AuditDSN names the store of log and quotas where DSN keeps counters alone:
	// SQLite or PostgreSQL. Default "sqlite:ratelimitlog.db".
	AuditDSN string
	// Migrate lets a server bring the schema of PostgreSQL up to date. SQLite is
	// always brought up to date.
	Migrate bool
	// Synchronous is "normal" (a power cut may take the last commits) or "full".
	// Default "normal".
	Synchronous string

	// TamperEvident chains the calls of the audit log by hashes that a verifier checks:
	// from now on and for ever, in whatever the log is kept. Every process that writes there
	// must be started after the first one with it.
	TamperEvident bool

	// ReadOnly opens an existing SQLite database to look only: hits fail, and looks work.
	ReadOnly bool

	// MustExist makes a SQLite database that is not there an error, instead of creating it.
	MustExist bool

	// PolicyFile is a YAML file of policies and routes, see package policyfile. Default:
	// none. The policy "default" is the file's, if it has one, and so is the route of
	// /ping. A server looks at the file every
	// ReloadEvery (default 1s) and puts in force what it has become, if that is right.
	PolicyFile  string
	ReloadEvery time.Duration
	// Limit of the policy "default", in units per window: a whole number, or
	// "unlimited". Default "60".
	Limit string
	// Window of the policy "default": a schedule like "1m" or "fixed 1h". Default "1m".
	Window string

	// StoreTimeout is how long a hit may wait for its decision. Default 250ms, and 5s
	// for SQLite, where who waits waits for another process that writes.
	StoreTimeout time.Duration
	// Queue is how many hits may wait at a time. Default 8192.
	Queue int
	// PruneEvery is the time between prunes. Default 1m; negative never prunes.
	PruneEvery time.Duration

	// AdminToken, AuditToken and ClientToken are what callers of the server prove their
	// role with. Without the first two what is theirs is closed, without the last one
	// what is the client's is open. Default: none.
	AdminToken, AuditToken, ClientToken string
	// HashKeys names a file that holds a secret of 16 to 4096 bytes, not counting a newline
	// at its end. With it keys are stored, logged and shown as hashes alone, see
	// [domain.KeyHasher]; another secret starts all keys anew. Default: keys are as they are.
	HashKeys string
	// CORSOrigins are the origins like https://app.example.com whose scripts may use
	// the server, "*" being all. Default: none.
	CORSOrigins []string

	// NoMetrics leaves out /metrics and what it costs.
	NoMetrics bool
	// Observer is told what a limiter does that is used inside a Go program: the package
	// infrastructure/metrics has one. Not for a server, which tells its own metrics; with
	// NoMetrics it tells this. Default: nobody.
	Observer application.Observer

	// LogLevel is debug, info, warn or error, LogFormat console or json, LogTo
	// where to. Defaults info, console, standard error.
	LogLevel, LogFormat string
	LogTo               io.Writer

	// Now is the clock, for tests. Default time.Now.
	Now func() time.Time
}

// Rules are the rules that the configuration defines: those of the file, and the
// policy "default" by Limit and Window and the route of /ping if the file has none.
func (c Config) Rules() (*application.Rules, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	var rules domain.Rules
	if c.PolicyFile != "" {
		var err error
		if rules, err = policyfile.Read(c.PolicyFile); err != nil {
			return nil, err
		}
	}
	rules, err := c.withDefaults(rules)
	if err != nil {
		return nil, err
	}
	return application.NewRules(rules)
}

// withDefaults adds the policy "default" and the route of /ping if they are not there.
func (c Config) withDefaults(rules domain.Rules) (domain.Rules, error) {
	limit, err := domain.ParseLimit(or(c.Limit, "60"))
	if err != nil {
		return rules, err
	}
	schedule, err := domain.ParseSchedule(or(c.Window, "1m"))
	if err != nil {
		return rules, err
	}
	fallback, err := domain.NewPolicy(domain.DefaultPolicy, limit, schedule)
	if err != nil {
		return rules, err
	}
	if !named(rules.Policies, fallback.Name) {
		rules.Policies = append(rules.Policies, fallback)
	}
	if slices.ContainsFunc(rules.Routes.All(), func(r *domain.Route) bool { return r.Path == domain.PingPath }) {
		return rules, nil
	}
	return rules, rules.Routes.Add(domain.PingRoute())
}

// check refuses numbers that make no sense; the rest is checked where it is used.
func (c Config) check() error {
	switch {
	case c.StoreTimeout < 0:
		return &domain.InvalidError{Field: "store-timeout", Reason: fmt.Sprintf("is %s, it must be more than 0", c.StoreTimeout)}
	case c.Queue < 0:
		return &domain.InvalidError{Field: "queue", Reason: fmt.Sprintf("is %d, it must be more than 0", c.Queue)}
	}
	return nil
}

const defaultDSN = "sqlite:ratelimitlog.db"

func (c Config) dsn() string { return or(c.DSN, defaultDSN) }

func (c Config) pruneEvery() time.Duration { return or(c.PruneEvery, time.Minute) }

func (c Config) logTo() io.Writer {
	if c.LogTo == nil {
		return os.Stderr
	}
	return c.LogTo
}

// or is value, or else if value is its type's zero.
func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
