package main

import (
	"fmt"
	"strings"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/policyfile"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

type policiesCmd struct {
	Check   policiesCheckCmd   `cmd:"" help:"Say whether a file is right, with the line and column of what is not. Exit status 0: right, 1: not."`
	Example policiesExampleCmd `cmd:"" help:"Print a file with all members."`
	List    policiesListCmd    `cmd:"" help:"List the policies in force."`
}

type policiesCheckCmd struct {
	File string `arg:"" help:"The file to check."`
}

func (c *policiesCheckCmd) Run(console *console) error {
	policies, err := policyfile.Read(c.File)
	if err != nil {
		return err
	}
	return console.print(map[string]any{"file": c.File, "policies": len(policies)}, "%s: %d policies, all right\n", c.File, len(policies))
}

type policiesExampleCmd struct{}

func (c *policiesExampleCmd) Run(console *console) error {
	_, err := fmt.Fprint(console.out, policyfile.Example)
	return err
}

type policiesListCmd struct{}

// policyJSON is a policy as GET /v1/policies shows it too.
type policyJSON struct {
	Name   string        `json:"name"`
	Limit  problem.Units `json:"limit"`
	Window string        `json:"window"`
}

func (c *policiesListCmd) Run(console *console) error {
	policies, err := console.config.Policies()
	if err != nil {
		return err
	}
	var machine []policyJSON
	var human strings.Builder
	for _, p := range policies.All() {
		machine = append(machine, policyJSON{p.Name, problem.Units(p.Limit), p.Schedule.String()})
		fmt.Fprintf(&human, "%s: %s per %s\n", p.Name, domain.FormatLimit(p.Limit), p.Schedule)
	}
	return console.print(map[string]any{"policies": machine}, "%s", human.String())
}
