package main

import (
	"encoding/json"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

type statusCmd struct {
	Key    string `arg:"" help:"Who is limited."`
	Policy string `default:"default" help:"The policy to look at."`
}

func (c *statusCmd) Run(console *console) error {
	console.config.ReadOnly = true
	limiter, cleanup, err := ratelimitlog.NewLimiter(console.ctx, console.config)
	if err != nil {
		return err
	}
	defer cleanup()
	decision, err := limiter.Hit(console.ctx, domain.Hit{Key: c.Key, Policies: []string{c.Policy}})
	if err != nil {
		return err
	}
	return console.print(json.RawMessage(problem.AppendStatus(nil, &decision)), "%s", describe(decision.Policies[0]))
}
