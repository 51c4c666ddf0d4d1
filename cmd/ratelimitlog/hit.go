package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

type hitCmd struct {
	Key    string   `arg:"" help:"Who is limited."`
	Policy []string `default:"default" help:"The policies that must all allow the hit, separated by commas."`
	Cost   int64    `default:"1" help:"Units to take from each; 0 only looks."`
}

func (c *hitCmd) Run(console *console) error {
	return console.withLimiter(func(limiter *application.Limiter) error { return c.hit(console, limiter) })
}

func (c *hitCmd) hit(console *console, limiter *application.Limiter) error {
	decision, err := limiter.Hit(console.ctx, domain.Hit{Key: c.Key, Policies: c.Policy, Cost: c.Cost, Origin: origin("hit")})
	if err != nil {
		return err
	}
	var human strings.Builder
	switch {
	case c.Cost == 0: // a look: there is nothing to allow
	case decision.Unchecked:
		fmt.Fprintln(&human, "allowed unchecked, the store could not decide")
	case decision.Allowed:
		fmt.Fprintln(&human, "allowed")
	default:
		fmt.Fprintf(&human, "refused, retry after %ds\n", decision.RetryAfter())
	}
	for _, p := range decision.Policies {
		if !decision.Unchecked { // else there are no numbers
			human.WriteString(describe(&decision, &p))
		}
	}
	if err := console.print(json.RawMessage(problem.AppendDecision(nil, &decision)), "%s", human.String()); err != nil {
		return err
	}
	if !decision.Allowed {
		return refusal{decision.Exceeded()}
	}
	return nil
}

// describe is a counter of a decision in words.
func describe(d *domain.Decision, p *domain.PolicyDecision) string {
	left, until := "no limit", p.Window.End
	if p.Limit > 0 && p.Remaining() == 0 {
		until = p.FullUntil(d.At)
	}
	if p.Limit != domain.Unlimited {
		left = fmt.Sprintf("%d of %d left", p.Remaining(), p.Limit)
	}
	shadow := ""
	switch {
	case p.Shadow && p.Refuses:
		shadow = " in shadow, would have refused"
	case p.Shadow:
		shadow = " in shadow"
	}
	return fmt.Sprintf("policy %s%s: %s until %s (attempted %d, refused %d)\n",
		p.Policy, shadow, left, until.UTC().Format(time.RFC3339), p.Count, p.Refused)
}
