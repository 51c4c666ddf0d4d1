package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

type hitCmd struct {
	Key    string `arg:"" help:"Who is limited."`
	Policy string `default:"default" help:"The policy to hit."`
	Cost   int64  `default:"1" help:"Units to take; 0 only looks."`
}

// decisionJSON is a decision as programs read it.
type decisionJSON struct {
	Allowed    bool          `json:"allowed"`
	Key        string        `json:"key"`
	Cost       int64         `json:"cost"`
	RetryAfter int64         `json:"retry_after"`
	Policies   []counterJSON `json:"policies"`
}

// counterJSON is a policy's part of a decision.
type counterJSON struct {
	Policy      string        `json:"policy"`
	Allowed     bool          `json:"allowed"`
	Limit       problem.Units `json:"limit"`
	Count       int64         `json:"count"`
	Refused     int64         `json:"refused"`
	Remaining   problem.Units `json:"remaining"`
	WindowStart time.Time     `json:"window_start"`
	WindowEnd   time.Time     `json:"window_end"`
}

func newCounterJSON(p domain.PolicyDecision) counterJSON {
	return counterJSON{
		Policy: p.Policy, Allowed: p.Allowed(), Limit: problem.Units(p.Limit), Count: p.Count, Refused: p.Refused,
		Remaining: problem.Units(p.Remaining()), WindowStart: p.Window.Start, WindowEnd: p.Window.End,
	}
}

func (c *hitCmd) Run(console *console) error {
	limiter, cleanup, err := ratelimitlog.NewLimiter(console.ctx, console.config)
	if err != nil {
		return err
	}
	defer cleanup()
	decision, err := limiter.Hit(console.ctx, domain.Hit{Key: c.Key, Policies: []string{c.Policy}, Cost: c.Cost, Method: "CLI", Path: "hit"})
	if err != nil {
		return err
	}
	machine := decisionJSON{Allowed: decision.Allowed, Key: decision.Key, Cost: decision.Cost, RetryAfter: decision.RetryAfter()}
	var human strings.Builder
	switch {
	case c.Cost == 0: // a look: there is nothing to allow
	case decision.Allowed:
		fmt.Fprintln(&human, "allowed")
	default:
		fmt.Fprintf(&human, "refused, retry after %ds\n", machine.RetryAfter)
	}
	for _, p := range decision.Policies {
		machine.Policies = append(machine.Policies, newCounterJSON(p))
		human.WriteString(describe(p))
	}
	if err := console.print(machine, "%s", human.String()); err != nil {
		return err
	}
	if !decision.Allowed {
		return refusal{decision.Exceeded()}
	}
	return nil
}

// describe is a counter in words.
func describe(p domain.PolicyDecision) string {
	left := "no limit"
	if p.Limit != domain.Unlimited {
		left = fmt.Sprintf("%d of %d left", p.Remaining(), p.Limit)
	}
	return fmt.Sprintf("policy %s: %s until %s (attempted %d, refused %d)\n",
		p.Policy, left, p.Window.End.Format(time.RFC3339), p.Count, p.Refused)
}
