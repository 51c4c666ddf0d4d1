package main

import (
	"encoding/json"
	"strings"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

type statusCmd struct {
	Key string `arg:"" help:"Who is limited."`
	policySelection
}

func (c *statusCmd) Run(console *console) error {
	console.config.ReadOnly = true
	var decision domain.Decision
	err := console.withLimiter(func(limiter *application.Limiter) (err error) {
		decision, err = limiter.Counters(console.ctx, c.Key, c.names(limiter)...)
		return err
	})
	if err != nil {
		return err
	}
	console.warnOfOthers()
	write := problem.AppendCounters // as GET /v1/counters
	if !c.All && len(c.Policy) == 1 {
		write = problem.AppendStatus // as GET /status
	}
	var human strings.Builder
	for _, p := range decision.Policies {
		human.WriteString(describe(&decision, &p))
	}
	return console.print(json.RawMessage(write(nil, &decision)), "%s", human.String())
}

// policySelection says under which policies a key is looked at or reset.
type policySelection struct {
	Policy []string `default:"default" help:"The policies, separated by commas."`
	All    bool     `help:"All policies."`
}

// names are the chosen policies, in the order in which they are told.
func (s *policySelection) names(limiter *application.Limiter) []string {
	if !s.All {
		return s.Policy
	}
	var names []string
	for _, policy := range limiter.Policies() {
		names = append(names, policy.Name)
	}
	return names
}
