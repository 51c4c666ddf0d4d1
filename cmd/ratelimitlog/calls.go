package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

type callsCmd struct {
	Key       string   `help:"Only calls of this key."`
	Policy    string   `help:"Only calls under this policy."`
	Outcome   string   `help:"Only hits that were allowed, or only refused ones."`
	From      string   `help:"Only calls from then on: 2026-01-01T00:00:00Z, 14:03 by the local clock, or 1h30m for so long ago."`
	To        string   `help:"Only calls before then, as --from."`
	Path      string   `help:"Only calls of this path."`
	RequestID string   `name:"request-id" help:"Only calls of this request."`
	Kind      []string `help:"Only calls of these kinds, separated by commas: hit, reset, quota_set, quota_unset, unchecked, policy_set, policy_removed."`
	Order     string   `help:"desc, newest first, or asc. Default desc; with --follow asc."`
	Number    int      `short:"n" default:"50" help:"How many calls; 0 shows all."`
	CSV       bool     `name:"csv" help:"Print CSV; a text that a spreadsheet would take for a formula has a ' before it."`
	Follow    bool     `short:"f" help:"Show the newest -n calls, oldest first, and then those that come, until interrupted."`
}

// followEvery is how often the log is asked for new calls.
const followEvery = 500 * time.Millisecond

func (c *callsCmd) Run(console *console) error {
	query, err := c.query(time.Now())
	if err != nil {
		return err
	}
	if c.CSV && console.json {
		return &domain.InvalidError{Field: "csv", Reason: "must not be asked for together with json"}
	}
	console.config.ReadOnly = true
	history, cleanup, err := ratelimitlog.NewHistory(console.ctx, console.config)
	if err != nil {
		return err
	}
	defer cleanup()
	print := c.printer(console)
	if c.Follow {
		if err := follow(console.ctx, history, query, print); console.ctx.Err() == nil {
			return err
		}
		return nil // following ends so
	}
	if err := history.Each(console.ctx, query, print); err != nil {
		return err
	}
	return print(nil)
}

// query is what calls are asked for. Its Limit is 0 for all.
func (c *callsCmd) query(now time.Time) (query domain.CallQuery, err error) {
	query = domain.CallQuery{
		Policy: c.Policy, Key: c.Key, Outcome: domain.CallOutcome(c.Outcome), Path: c.Path, RequestID: c.RequestID,
		OldestFirst: c.Order == "asc", Limit: c.Number,
	}
	for _, kind := range c.Kind {
		query.Kinds = append(query.Kinds, domain.CallKind(kind))
	}
	switch {
	case c.Number < 0:
		return query, &domain.InvalidError{Field: "number", Reason: fmt.Sprintf("is %d, it must be 0 or more", c.Number)}
	case c.Order != "" && c.Order != "asc" && c.Order != "desc":
		return query, &domain.InvalidError{Field: "order", Reason: fmt.Sprintf("is %q, it must be asc or desc", c.Order)}
	case c.Follow && c.Order == "desc":
		return query, &domain.InvalidError{Field: "order", Reason: "must be asc with follow"}
	}
	if query.From, err = parseTime("from", c.From, now); err != nil {
		return query, err
	}
	query.To, err = parseTime("to", c.To, now)
	return query, err
}

// printer prints a page of calls, the first one, maybe empty, with what comes before it.
func (c *callsCmd) printer(console *console) func([]domain.Call) error {
	switch {
	case c.CSV:
		return appended(console.out, problem.CallCSVHeader, problem.AppendCallCSV)
	case console.json:
		return appended(console.out, "", problem.AppendCallLine)
	}
	return callTable(console.out)
}

// appended prints what write makes of each call, after the head.
func appended(out io.Writer, head string, write func([]byte, domain.Call) []byte) func([]domain.Call) error {
	buffer := []byte(head)
	return func(page []domain.Call) error {
		for _, call := range page {
			buffer = write(buffer, call)
		}
		_, err := out.Write(buffer)
		buffer = buffer[:0]
		return err
	}
}

// follow prints the newest calls that the query asks for, as many as its limit says,
// oldest first, and then those that are added, until the context ends.
func follow(ctx context.Context, history *application.History, query domain.CallQuery, print func([]domain.Call) error) error {
	seen, err := before(ctx, history, query)
	if err != nil {
		return err
	}
	query.OldestFirst, query.Limit = true, 0
	for {
		newest, err := history.Newest(ctx)
		if err != nil {
			return err
		}
		if newest > seen {
			query.After, query.Before = seen, newest+1
			if err := history.Each(ctx, query, print); err != nil {
				return err
			}
			seen = newest
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
	}
}

// before is an ID after which there are as many calls as the query's limit says.
func before(ctx context.Context, history *application.History, query domain.CallQuery) (int64, error) {
	if query.Limit == 0 {
		return 0, nil
	}
	id, err := history.Newest(ctx)
	if err != nil {
		return 0, err
	}
	query.OldestFirst, query.Before = false, id+1
	err = history.Each(ctx, query, func(page []domain.Call) error {
		id = page[len(page)-1].ID - 1
		return nil
	})
	return id, err
}
