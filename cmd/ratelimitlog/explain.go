package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

type explainCmd struct {
	Key    string `arg:"" help:"Who was limited."`
	Policy string `help:"The policy. Default the one that refused the key nearest to --at."`
	At     string `help:"When: 2026-01-01T14:03:20Z, 14:03:20 today or yesterday by the local clock, or 1h30m for so long ago; without seconds, as 14:03, within that minute. Default the last refusal within a day, else now."`
}

func (c *explainCmd) Run(console *console) error {
	// What is in force is what servers enforce, not what this command is told.
	query := application.ExplainQuery{Key: c.Key, Policy: c.Policy, Outside: true}
	var err error
	if query.At, query.Minute, err = parseMoment("at", c.At, time.Now()); err != nil {
		return err
	}
	console.config.ReadOnly = true
	explainer, cleanup, err := ratelimitlog.NewExplainer(console.ctx, console.config)
	if err != nil {
		return err
	}
	defer cleanup()
	explanation, err := explainer.Explain(console.ctx, query)
	if err != nil {
		return err
	}
	return console.print(json.RawMessage(problem.AppendExplanation(nil, &explanation)), "%s\n", strings.Join(problem.Words(&explanation), "\n")) // as GET /v1/explain
}
