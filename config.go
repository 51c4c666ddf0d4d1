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
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
)

// Config says what to build. The zero value is the default of every field.
type Config struct {
	// DSN names the store: "sqlite:path/to/file" or "sqlite::memory:". Default
	// "sqlite:ratelimitlog.db", a file in the working directory.
	DSN string
	// Synchronous is "normal" (a power cut may take the last commits) or "full".
	// Default "normal".
	Synchronous string

	// ReadOnly opens an existing database to look only: hits fail, and looks work.
	ReadOnly bool

	// PolicyFile is a YAML file of policies, see package policyfile. Default: none. The
	// policy "default" is the file's, if it has one. A server looks at the file every
	// ReloadEvery (default 1s) and puts in force what it has become, if that is right.
	PolicyFile  string
	ReloadEvery time.Duration
	// Limit of the policy "default", in units per window: a whole number, or
	// "unlimited". Default "60".
	Limit string
	// Window of the policy "default": a schedule like "1m" or "fixed 1h". Default "1m".
	Window string

	// StoreTimeout is how long a hit may wait for its decision. Default 5s.
	StoreTimeout time.Duration
	// Queue is how many hits may wait at a time. Default 8192.
	Queue int
	// PruneEvery is the time between prunes. Default 1m; negative never prunes.
	PruneEvery time.Duration

	// LogLevel is debug, info, warn or error, LogFormat console or json, LogTo
	// where to. Defaults info, console, standard error.
	LogLevel, LogFormat string
	LogTo               io.Writer

	// Now is the clock, for tests. Default time.Now.
	Now func() time.Time
}

// Policies are the policies that the configuration defines: those of the file, and
// "default" by Limit and Window if the file has none of that name.
func (c Config) Policies() (*application.Policies, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	var policies []domain.Policy
	if c.PolicyFile != "" {
		var err error
		if policies, err = policyfile.Read(c.PolicyFile); err != nil {
			return nil, err
		}
	}
	policies, err := c.withDefault(policies)
	if err != nil {
		return nil, err
	}
	return application.NewPolicies(policies...)
}

// withDefault adds the policy "default" if it is not there.
func (c Config) withDefault(policies []domain.Policy) ([]domain.Policy, error) {
	limit, err := domain.ParseLimit(or(c.Limit, "60"))
	if err != nil {
		return nil, err
	}
	schedule, err := domain.ParseSchedule(or(c.Window, "1m"))
	if err != nil {
		return nil, err
	}
	fallback, err := domain.NewPolicy(httpapi.DefaultPolicy, limit, schedule)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(policies, func(p domain.Policy) bool { return p.Name == fallback.Name }) {
		return policies, nil
	}
	return append(policies, fallback), nil
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

func (c Config) dsn() string { return or(c.DSN, "sqlite:ratelimitlog.db") }

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
