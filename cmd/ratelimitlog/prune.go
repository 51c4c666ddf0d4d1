package main

import (
	"fmt"
	"time"

	"github.com/nene2-ft/ratelimitlog"
)

type pruneCmd struct{}

func (c *pruneCmd) Run(console *console) error {
	limiter, cleanup, err := ratelimitlog.NewLimiter(console.ctx, console.config)
	if err != nil {
		return err
	}
	defer cleanup()
	told := time.Now()
	removed, err := limiter.Prune(console.ctx, func(removed int) {
		if time.Since(told) > time.Second {
			told = time.Now()
			fmt.Fprintf(console.err, "pruned %d windows so far\n", removed)
		}
	})
	if err != nil {
		return err
	}
	return console.print(map[string]int{"removed": removed}, "pruned %d windows\n", removed)
}
