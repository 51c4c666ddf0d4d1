package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// callColumns are the heads of the table of calls, each padded to the least width of
// its column.
var callColumns = []string{
	"ID    ", "CALLED AT               ", "OUTCOME       ", "POLICY ", "KEY       ", "COST", "HITS", "COUNT ", "REFUSED", "LIMIT    ", "REQUEST",
}

// callTable prints calls as lines of a table. Its columns are as wide as the first page
// needs them, so that they stay where they are; of what is wider later only its own line is
// shifted.
func callTable(out io.Writer) func([]domain.Call) error {
	var widths []int
	return func(page []domain.Call) error {
		var rows [][]string
		if widths == nil {
			rows = append(rows, callColumns)
		}
		for i := range page {
			rows = append(rows, callCells(&page[i]))
		}
		if widths == nil {
			for i := range callColumns {
				var column []string
				for _, row := range rows {
					column = append(column, row[i])
				}
				widths = append(widths, widest(column))
			}
		}
		var text strings.Builder
		for _, row := range rows {
			last := len(row) - 1
			for i, cell := range row[:last] {
				text.WriteString(pad(cell, widths[i]) + "  ")
			}
			text.WriteString(row[last] + "\n")
		}
		_, err := io.WriteString(out, text.String())
		return err
	}
}

// callCells are the cells of a call's line.
func callCells(c *domain.Call) []string {
	limit := "-"
	if c.Kind.HasLimit() {
		limit = domain.FormatLimit(c.Limit)
	}
	request := c.Method
	for _, text := range []string{cell(c.Path), problem.Printable(c.RequestID)} {
		if text != "" {
			request += " " + text
		}
	}
	if c.Actor != "" {
		request += " by " + cell(c.Actor)
	}
	return []string{
		fmt.Sprint(c.ID), c.At.UTC().Format("2006-01-02T15:04:05.000Z"), outcome(c), cell(c.Policy), cell(c.Key),
		fmt.Sprint(c.Cost), fmt.Sprint(c.Hits), fmt.Sprint(c.Count), fmt.Sprint(c.Refused), limit, request,
	}
}

// outcome is what a call came to, in words.
func outcome(c *domain.Call) string {
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
