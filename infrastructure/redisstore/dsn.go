package redisstore

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// defaultPrefix begins the names of all keys unless the DSN says otherwise.
const defaultPrefix = "ratelimitlog"

// location is a parsed DSN.
type location struct {
	tls            bool
	user, password string
	hosts          []string // host:port, at least one
	cluster        bool
	db             int
	prefix         string
}

// parseDSN reads redis://[user:password@]host[:port][,host...][/db][?parameters].
// It does not use package url for the whole, which takes no list of hosts. Errors
// quote nothing, because anything may be a part of a password that was not escaped.
func parseDSN(dsn string) (location, error) {
	invalid := func(reason string, args ...any) (location, error) {
		return location{}, &domain.InvalidError{Field: "dsn", Reason: fmt.Sprintf(reason, args...)}
	}
	at := location{prefix: defaultPrefix}
	rest, ok := strings.CutPrefix(dsn, "redis://")
	if !ok {
		if rest, ok = strings.CutPrefix(dsn, "rediss://"); !ok {
			return invalid("does not begin with redis:// or rediss://")
		}
		at.tls = true
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		userinfo := rest[:i]
		rest = rest[i+1:]
		if strings.ContainsAny(userinfo, "/?#") {
			return invalid("has a /, ? or # before its last @; write %%2F, %%3F or %%23 in a name or password, and %%40 in a parameter")
		}
		var errUser, errPassword error
		user, password, _ := strings.Cut(userinfo, ":")
		at.user, errUser = url.PathUnescape(user)
		at.password, errPassword = url.PathUnescape(password)
		if errUser != nil || errPassword != nil {
			return invalid("has a user name or password in which %% is not followed by two hexadecimal digits")
		}
	}
	if strings.ContainsRune(rest, '#') {
		return invalid("must not have a fragment")
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, db, _ := strings.Cut(rest, "/")
	if db != "" {
		n, err := strconv.ParseUint(db, 10, 31)
		if err != nil {
			return invalid("must name the database by its number")
		}
		at.db = int(n)
	}
	for _, host := range strings.Split(hosts, ",") {
		address, ok := hostPort(host)
		if !ok {
			return invalid("must name each host as host, host:port or [IPv6]:port")
		}
		at.hosts = append(at.hosts, address)
	}
	at.cluster = len(at.hosts) > 1
	if err := at.setParameters(query); err != nil {
		return location{}, err
	}
	if at.cluster && at.db != 0 {
		return invalid("must name no database: a cluster has only one")
	}
	return at, nil
}

// setParameters reads what follows the question mark.
func (l *location) setParameters(query string) error {
	invalid := func(reason string) error { return &domain.InvalidError{Field: "dsn", Reason: reason} }
	values, err := url.ParseQuery(query)
	if err != nil {
		return invalid("has parameters that cannot be read")
	}
	for name, all := range values {
		if len(all) > 1 {
			return invalid("gives a parameter twice")
		}
		switch value := all[0]; name {
		case "prefix":
			if value == "" || strings.ContainsAny(value, "{}") || strings.ContainsFunc(value, unicode.IsControl) {
				return invalid("must have a prefix that is not empty and has neither braces nor control characters")
			}
			l.prefix = value
		case "cluster":
			if value != "true" && (value != "false" || l.cluster) {
				return invalid("must have cluster=true, or for one host cluster=false")
			}
			l.cluster = value == "true"
		default:
			return invalid("has a parameter other than prefix and cluster")
		}
	}
	return nil
}

// hostPort adds the usual port to a host without one.
func hostPort(text string) (string, bool) {
	if bare, ok := strings.CutSuffix(text, "]"); ok || !strings.Contains(text, ":") {
		if strings.HasPrefix(bare, "[") != ok {
			return "", false
		}
		text += ":6379"
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" || strings.ContainsAny(host, " []") {
		return "", false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}
