package main

import (
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

type statusCmd struct {
	Key    string `arg:"" help:"Who is limited."`
	Policy string `default:"default" help:"The policy to look at."`
}

// statusJSON is a counter as GET /status shows it too.
type statusJSON struct {
	Key         string        `json:"key"`
	Policy      string        `json:"policy"`
	Limit       problem.Units `json:"limit"`
	Count       int64         `json:"count"`
	Refused     int64         `json:"refused"`
	Remaining   problem.Units `json:"remaining"`
	WindowStart time.Time     `json:"window_start"`
	WindowEnd   time.Time     `json:"window_end"`
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
	p := decision.Policies[0]
	return console.print(statusJSON{
		Key: decision.Key, Policy: p.Policy, Limit: problem.Units(p.Limit), Count: p.Count, Refused: p.Refused,
		Remaining: problem.Units(p.Remaining()), WindowStart: p.Window.Start, WindowEnd: p.Window.End,
	}, "%s", describe(p))
}
