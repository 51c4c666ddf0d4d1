package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// callTable prints calls as lines of a table, whose columns are as wide as each page
// needs them.
func callTable(out io.Writer) func([]domain.Call) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tCALLED AT\tOUTCOME\tPOLICY\tKEY\tCOST\tHITS\tCOUNT\tREFUSED\tLIMIT\tREQUEST")
	return func(page []domain.Call) error {
		for _, call := range page {
			if err := printCall(table, call); err != nil {
				return err
			}
		}
		return table.Flush()
	}
}

func printCall(table io.Writer, c domain.Call) error {
	limit := "-"
	if c.Kind.HasLimit() {
		limit = domain.FormatLimit(c.Limit)
	}
	request := strings.Join([]string{c.Method, problem.Printable(c.Path), problem.Printable(c.RequestID)}, " ")
	if c.Actor != "" {
		request += " by " + problem.Printable(c.Actor)
	}
	_, err := fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", c.ID, c.At.UTC().Format("2006-01-02T15:04:05.000Z"),
		outcome(c), problem.Printable(c.Policy), problem.Printable(c.Key), c.Cost, c.Hits, c.Count, c.Refused, limit, request)
	return err
}

// outcome is what a call came to, in words.
func outcome(c domain.Call) string {
	switch {
	case c.Kind != domain.CallHit:
		return strings.ReplaceAll(string(c.Kind), "_", " ")
	case c.Allowed:
		return "allowed"
	case c.Shadow:
		return "shadow refused"
	}
	return "refused"
}
