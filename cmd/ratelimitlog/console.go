package main

import (
	"encoding/json"
	"fmt"

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

// quote shows a key so that nothing in it is taken for something else.
func quote(key string) string { return fmt.Sprintf("%q", key) }
