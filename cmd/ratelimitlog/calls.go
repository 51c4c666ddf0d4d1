package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

type callsCmd struct {
	Key     string `help:"Only calls of this key."`
	Policy  string `help:"Only calls under this policy."`
	Outcome string `help:"Only hits that were allowed, or only refused ones."`
	Number  int    `short:"n" default:"50" help:"How many calls; 0 shows all."`
}

// callJSON is a call as programs read it, one object a line.
type callJSON struct {
	ID          int64          `json:"id"`
	CalledAt    time.Time      `json:"called_at"`
	Kind        string         `json:"kind"`
	Policy      string         `json:"policy"`
	Key         string         `json:"key"`
	Cost        int64          `json:"cost"`
	Hits        int64          `json:"hits"`
	Allowed     bool           `json:"allowed"`
	Shadow      bool           `json:"shadow,omitempty"`
	Count       int64          `json:"count"`
	Refused     int64          `json:"refused"`
	Limit       *problem.Units `json:"limit,omitempty"`
	WindowStart *time.Time     `json:"window_start,omitempty"`
	Method      string         `json:"method"`
	Path        string         `json:"path"`
	RequestID   string         `json:"request_id"`
}

func newCallJSON(c domain.Call) callJSON {
	j := callJSON{
		ID: c.ID, CalledAt: c.At, Kind: string(c.Kind), Policy: c.Policy, Key: c.Key, Cost: c.Cost, Hits: c.Hits,
		Allowed: c.Allowed, Shadow: c.Shadow, Count: c.Count, Refused: c.Refused, Method: c.Method, Path: c.Path, RequestID: c.RequestID,
	}
	if c.Kind == domain.CallHit {
		j.WindowStart = &c.WindowStart
	}
	if c.Kind.HasLimit() {
		limit := problem.Units(c.Limit)
		j.Limit = &limit
	}
	return j
}

func (c *callsCmd) Run(console *console) error {
	if c.Number < 0 {
		return &domain.InvalidError{Field: "number", Reason: fmt.Sprintf("is %d, it must be 0 or more", c.Number)}
	}
	console.config.ReadOnly = true
	history, cleanup, err := ratelimitlog.NewHistory(console.ctx, console.config)
	if err != nil {
		return err
	}
	defer cleanup()
	write, flush := callTable(console.out)
	if console.json {
		encoder := json.NewEncoder(console.out)
		write, flush = func(call domain.Call) error { return encoder.Encode(newCallJSON(call)) }, func() error { return nil }
	}
	query := domain.CallQuery{Policy: c.Policy, Key: c.Key, Outcome: domain.CallOutcome(c.Outcome)}
	for left := c.Number; ; left -= query.Limit {
		query.Limit = application.MaxPage
		if c.Number > 0 {
			query.Limit = min(left, application.MaxPage)
		}
		page, err := history.Calls(console.ctx, query)
		if err != nil {
			return err
		}
		for _, call := range page {
			if err := write(call); err != nil {
				return err
			}
		}
		if err := flush(); err != nil {
			return err
		}
		if len(page) < query.Limit || c.Number > 0 && left == query.Limit {
			return nil
		}
		query.Before = page[len(page)-1].ID
	}
}

// printable is text as it is if all of it can be seen, else quoted, so that it does
// nothing to a terminal.
func printable(text string) string {
	if quoted := strconv.Quote(text); quoted[1:len(quoted)-1] != text {
		return quoted
	}
	return text
}

// callTable writes calls as lines of a table.
func callTable(out io.Writer) (write func(domain.Call) error, flush func() error) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tCALLED AT\tOUTCOME\tPOLICY\tKEY\tCOST\tHITS\tCOUNT\tREFUSED\tLIMIT\tREQUEST")
	return func(c domain.Call) error {
		outcome, limit := "refused", domain.FormatLimit(c.Limit)
		switch {
		case c.Kind == domain.CallQuotaSet:
			outcome = "quota set"
		case c.Kind == domain.CallQuotaUnset:
			outcome, limit = "quota unset", "-"
		case c.Kind == domain.CallReset:
			outcome, limit = "reset", "-"
		case c.Kind == domain.CallPolicySet:
			outcome = "policy set"
		case c.Kind == domain.CallPolicyRemoved:
			outcome, limit = "policy removed", "-"
		case c.Kind == domain.CallUnchecked:
			outcome, limit = "unchecked", "-"
		case c.Shadow && !c.Allowed:
			outcome = "shadow refused"
		case c.Allowed:
			outcome = "allowed"
		}
		_, err := fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s %s %s\n", c.ID, c.At.Format("2006-01-02T15:04:05.000Z"),
			outcome, c.Policy, printable(c.Key), c.Cost, c.Hits, c.Count, c.Refused, limit, c.Method, printable(c.Path), c.RequestID)
		return err
	}, table.Flush
}
