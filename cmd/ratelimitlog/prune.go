package main

import (
	"fmt"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
)

type pruneCmd struct {
	Policy  string `help:"Only the log of this policy, which need not be in force; say with --keep or --max-rows what stays."`
	Keep    string `help:"With --policy: for how long its calls are kept, like 30d."`
	MaxRows int64  `help:"With --policy: how many of its calls are kept, the newest."`
}

func (c *pruneCmd) Run(console *console) error {
	audit, err := c.audit()
	if err != nil {
		return err
	}
	told := time.Now()
	progress := func(pruned application.Pruned) {
		if time.Since(told) > time.Second {
			told = time.Now()
			fmt.Fprintf(console.err, "pruned %d windows and %d calls so far\n", pruned.Windows, pruned.Calls)
		}
	}
	var pruned application.Pruned
	err = console.withExisting(func(limiter *application.Limiter) (err error) {
		if c.Policy != "" {
			pruned, err = limiter.PruneCalls(console.ctx, c.Policy, audit, progress)
		} else {
			pruned, err = limiter.Prune(console.ctx, progress)
		}
		return err
	})
	if err != nil {
		return err
	}
	return console.print(map[string]int{"windows": pruned.Windows, "calls": pruned.Calls}, "pruned %d windows and %d calls\n", pruned.Windows, pruned.Calls)
}

// audit is what the flags say is kept of a policy's log.
func (c *pruneCmd) audit() (audit domain.Audit, err error) {
	set := c.Keep != "" || c.MaxRows != 0
	switch {
	case c.Policy == "" && set:
		return audit, &domain.InvalidError{Field: "policy", Reason: "must be named with --keep and --max-rows; without them all policies are pruned as the policy file says"}
	case c.Policy != "" && !set:
		return audit, &domain.InvalidError{Field: "keep", Reason: "or max-rows must say what stays of the policy's log"}
	case c.MaxRows < 0:
		return audit, &domain.InvalidError{Field: "max-rows", Reason: fmt.Sprintf("is %d, it must be at least 1", c.MaxRows)}
	}
	audit.MaxRows = c.MaxRows
	if c.Keep != "" {
		audit.Keep, err = domain.ParseKeep(c.Keep)
	}
	return audit, err
}
