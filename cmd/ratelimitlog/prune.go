package main

import (
	"fmt"
	"time"

	"github.com/nene2-ft/ratelimitlog/application"
)

type pruneCmd struct{}

func (c *pruneCmd) Run(console *console) error {
	told, removed := time.Now(), 0
	err := console.withLimiter(func(limiter *application.Limiter) (err error) {
		removed, err = limiter.Prune(console.ctx, func(removed int) {
			if time.Since(told) > time.Second {
				told = time.Now()
				fmt.Fprintf(console.err, "pruned %d windows so far\n", removed)
			}
		})
		return err
	})
	if err != nil {
		return err
	}
	return console.print(map[string]int{"removed": removed}, "pruned %d windows\n", removed)
}
