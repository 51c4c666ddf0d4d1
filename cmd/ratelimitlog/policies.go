package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/policyfile"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

type policiesCmd struct {
	Check   policiesCheckCmd   `cmd:"" help:"Say whether a file is right, with the line and column of what is not. Exit status 0: right, 1: not."`
	Example policiesExampleCmd `cmd:"" help:"Print a file with all members."`
	List    policiesListCmd    `cmd:"" help:"List the policies that these settings make, --policies above all; a server may have others."`
}

type policiesCheckCmd struct {
	File string `arg:"" help:"The file to check."`
}

func (c *policiesCheckCmd) Run(console *console) error {
	rules, err := policyfile.Read(c.File)
	if err != nil {
		return err
	}
	policies, routes := len(rules.Policies), len(rules.Routes.All())
	return console.print(map[string]any{"file": c.File, "policies": policies, "routes": routes},
		"%s: %s and %s, all right\n", c.File, counted(policies, "policy", "policies"), counted(routes, "route", "routes"))
}

func counted[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

type policiesExampleCmd struct{}

func (c *policiesExampleCmd) Run(console *console) error {
	_, err := io.WriteString(console.out, policyfile.Example)
	return err
}

type policiesListCmd struct{}

func (c *policiesListCmd) Run(console *console) error {
	rules, err := console.config.Rules()
	if err != nil {
		return err
	}
	policies := rules.Policies()
	var human strings.Builder
	for _, p := range policies {
		shadow := ""
		if p.Shadow {
			shadow = ", in shadow"
		}
		fmt.Fprintf(&human, "%s: %s per %s%s%s\n", p.Name, domain.FormatLimit(p.Limit), p.Schedule, shadow, describeAudit(p.Audit))
	}
	return console.print(json.RawMessage(problem.AppendPolicies(nil, rules.Revision(), policies)), "%s", human.String()) // as GET /v1/policies
}

// describeAudit is what the log has of a policy's hits in words, "" if it is all for ever.
func describeAudit(a domain.Audit) string {
	words := ""
	if coverage := a.Coverage(); coverage != "" {
		words += ", logs " + coverage
	}
	if a.Keep > 0 {
		words += ", keeps calls for " + domain.FormatDuration(a.Keep)
	}
	if a.MaxRows > 0 {
		words += fmt.Sprintf(", keeps %s at most", counted(a.MaxRows, "call", "calls"))
	}
	return words
}
