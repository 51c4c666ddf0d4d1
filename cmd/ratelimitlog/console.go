package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/application"
)

// print writes a command's result: machine as JSON with --json, else the text.
func (c *console) print(machine any, format string, args ...any) error {
	if c.json {
		return json.NewEncoder(c.out).Encode(machine)
	}
	_, err := fmt.Fprintf(c.out, format, args...)
	return err
}

// withLimiter does something with a limiter and stops it.
func (c *console) withLimiter(do func(*application.Limiter) error) error {
	limiter, cleanup, err := ratelimitlog.NewLimiter(c.ctx, c.config)
	if err != nil {
		return err
	}
	defer cleanup()
	return do(limiter)
}

// withExisting is withLimiter on a database that is there: to change what others enforce
// in one that is made for it would only seem to work.
func (c *console) withExisting(do func(*application.Limiter) error) error {
	c.config.MustExist = true
	return c.withLimiter(do)
}

// warnOfOthers says so if the log has it that other policies are in force than those of
// this command's settings. It is a hint: where the log cannot be read there is none.
func (c *console) warnOfOthers() {
	rules, err := c.config.Rules()
	if err != nil {
		return
	}
	history, cleanup, err := ratelimitlog.NewHistory(c.ctx, c.config)
	if err != nil {
		return
	}
	defer cleanup()
	if names, err := history.Others(c.ctx, rules.Policies()); err == nil && len(names) > 0 {
		fmt.Fprintf(c.err, "ratelimitlog: by the log a server has other policies in force than these settings make (%s): give --policies, --limit and --window as it has them\n", strings.Join(names, ", "))
	}
}

// quote shows a key so that nothing in it is taken for something else.
func quote(key string) string { return fmt.Sprintf("%q", key) }
