package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

type explainCmd struct {
	Key    string `arg:"" help:"Who was limited."`
	Policy string `default:"default" help:"The policy."`
	At     string `help:"When: 2026-01-01T14:03:00Z, or 1h30m for so long ago. Default now."`
}

func (c *explainCmd) Run(console *console) error {
	at, err := parseTime(c.At, time.Now())
	if err != nil {
		return err
	}
	console.config.ReadOnly = true
	explainer, cleanup, err := ratelimitlog.NewExplainer(console.ctx, console.config)
	if err != nil {
		return err
	}
	defer cleanup()
	explanation, err := explainer.Explain(console.ctx, c.Key, c.Policy, at)
	if err != nil {
		return err
	}
	return console.print(json.RawMessage(problem.AppendExplanation(nil, &explanation)), "%s\n", strings.Join(problem.Words(&explanation), "\n")) // as GET /v1/explain
}
