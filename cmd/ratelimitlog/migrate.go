package main

import "github.com/nene2-ft/ratelimitlog"

type migrateCmd struct{}

func (c *migrateCmd) Run(console *console) error {
	if err := ratelimitlog.Migrate(console.ctx, console.config); err != nil {
		return err
	}
	return console.print(map[string]string{"schema": "up to date"}, "the schema is up to date\n")
}
