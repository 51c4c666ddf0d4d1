package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

type usageCmd struct {
	By     string  `default:"key" help:"What to add up by: key, policy, path, minute, hour, day or month."`
	From   string  `help:"From when on: 2026-01-01T00:00:00Z, 14:03 by the local clock, or 7d for so long ago. Default a day before --to."`
	To     string  `help:"Before when, as --from. Default now."`
	Zone   *string `help:"Time zone of minutes, hours, days and months, like Europe/Berlin. Default UTC."`
	Top    *int    `help:"How many keys, policies or paths, those with most units. Default 10."`
	Order  string  `help:"units, those with most units first, or refused, those with most refused ones. Default units."`
	Key    string  `help:"Only hits of this key."`
	Policy string  `help:"Only hits under this policy; without it a request on two policies counts in both."`
	Path   string  `help:"Only hits of this path."`
}

func (c *usageCmd) Run(console *console) error {
	query, err := c.query(time.Now())
	if err != nil {
		return err
	}
	console.config.ReadOnly = true
	history, cleanup, err := ratelimitlog.NewHistory(console.ctx, console.config)
	if err != nil {
		return err
	}
	defer cleanup()
	usage, err := history.Usage(console.ctx, query)
	if err != nil {
		return err
	}
	if console.json {
		return console.print(json.RawMessage(problem.AppendUsage(nil, &usage)), "") // as GET /v1/usage
	}
	return newBars(os.Getenv).print(console.out, &usage)
}

func (c *usageCmd) query(now time.Time) (query application.UsageQuery, err error) {
	query = application.UsageQuery{By: domain.UsageBy(c.By), Key: c.Key, Policy: c.Policy, Path: c.Path}
	if c.Top != nil {
		if query.Top = *c.Top; query.Top == 0 { // which would be the default
			return query, &domain.InvalidError{Field: "top", Reason: fmt.Sprintf("is 0, it must be 1 to %d", application.MaxPage)}
		}
	}
	if c.Zone != nil {
		if query.Zone, err = domain.Zone(*c.Zone); err != nil {
			return query, err
		}
	}
	if query.ByRefused, err = domain.ParseUsageOrder(c.Order, query.By); err != nil {
		return query, err
	}
	if query.From, err = parseTime("from", c.From, now); err != nil {
		return query, err
	}
	if query.To, err = parseTime("to", c.To, now); err != nil {
		return query, err
	}
	query.Default(now)
	return query, nil
}
