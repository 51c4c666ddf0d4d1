package main

import "github.com/nene2-ft/ratelimitlog"

type migrateCmd struct{}

func (c *migrateCmd) Run(console *console) error {
	_, cleanup, err := ratelimitlog.NewLimiter(console.ctx, console.config) // opening migrates
	if err != nil {
		return err
	}
	cleanup()
	return console.print(map[string]string{"dsn": console.config.DSN, "schema": "up to date"},
		"%s: the schema is up to date\n", console.config.DSN)
}
