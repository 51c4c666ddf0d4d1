package main

import (
	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
)

type resetCmd struct {
	Key    string `arg:"" help:"Who is limited."`
	Policy string `default:"default" help:"The policy to reset the key under."`
}

func (c *resetCmd) Run(console *console) error {
	limiter, cleanup, err := ratelimitlog.NewLimiter(console.ctx, console.config)
	if err != nil {
		return err
	}
	defer cleanup()
	err = limiter.Reset(console.ctx, domain.Hit{Key: c.Key, Policies: []string{c.Policy}, Method: "CLI", Path: "reset"})
	if err != nil {
		return err
	}
	return console.print(map[string]string{"key": c.Key, "policy": c.Policy, "reset": "done"},
		"policy %s: %q starts anew\n", c.Policy, c.Key)
}
