package gormstore

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Synchronous is how hard a commit is to lose.
type Synchronous string

const (
	// SynchronousNormal keeps every commit through a crash of the process; a power
	// cut may take the last ones, and leaves the file consistent. The default.
	SynchronousNormal Synchronous = "normal"
	// SynchronousFull keeps every commit through a power cut too: each waits for the disk.
	SynchronousFull Synchronous = "full"
)

// location is a parsed DSN.
type location struct {
	path string // "" for a database in memory
}

const scheme = "sqlite:"

func parseDSN(dsn string) (location, error) {
	path, ok := strings.CutPrefix(dsn, scheme)
	switch {
	case !ok:
		return location{}, &domain.InvalidError{Field: "dsn", Reason: fmt.Sprintf("%q does not begin with sqlite:; write sqlite:FILE, or sqlite::memory:", dsn)}
	case path == ":memory:":
		return location{}, nil
	case path == "":
		return location{}, &domain.InvalidError{Field: "dsn", Reason: fmt.Sprintf("%q names no file", dsn)}
	case strings.ContainsRune(path, 0):
		return location{}, &domain.InvalidError{Field: "dsn", Reason: "has a NUL byte"}
	}
	return location{path: path}, nil
}

// uri is what the driver opens. Everything in path is meant literally, "?" and "%" too.
func (l location) uri(params url.Values) string {
	path := ":memory:"
	if l.path != "" {
		path = (&url.URL{Path: l.path}).EscapedPath()
	}
	return "file:" + path + "?" + params.Encode()
}

// writerWait is how long the connection that writes waits for the lock by itself.
// It is short because begin tries again, see there.
const writerWait = 50 * time.Millisecond

// writer are the parameters of the connection that writes.
func writer(synchronous Synchronous) url.Values {
	return url.Values{
		"_journal_mode": {"WAL"},
		"_synchronous":  {string(synchronous)},
		"_txlock":       {"immediate"},
		"_busy_timeout": {strconv.FormatInt(writerWait.Milliseconds(), 10)},
	}
}

// reader are the parameters of the connections that read.
func reader() url.Values {
	return url.Values{
		"mode":          {"ro"},
		"_query_only":   {"1"},
		"_busy_timeout": {"5000"},
	}
}

// copier are the parameters of the connection that copies the database elsewhere.
func copier() url.Values {
	return url.Values{"mode": {"ro"}, "_busy_timeout": {"5000"}}
}
