package main

import (
	"errors"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// The exit statuses, which scripts depend on.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2 // the command line or a value on it makes no sense
	exitRefused = 3
)

// refusal is returned by a command that has printed the refusal already.
type refusal struct{ *domain.RateLimitExceeded }

// exitStatus maps an error to an exit status.
func exitStatus(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(refusal)), errors.As(err, new(*domain.RateLimitExceeded)):
		return exitRefused
	case errors.As(err, new(*domain.InvalidError)), errors.Is(err, domain.ErrNotFound):
		return exitUsage
	case errors.Is(err, domain.ErrOverloaded), errors.Is(err, domain.ErrUnavailable):
		return exitError
	}
	return exitError
}
