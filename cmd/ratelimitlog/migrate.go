package main

import (
	"strings"

	"github.com/nene2-ft/ratelimitlog"
)

type migrateCmd struct{}

func (c *migrateCmd) Run(console *console) error {
	if err := ratelimitlog.Migrate(console.ctx, console.config); err != nil {
		return err
	}
	kept, _, _ := strings.Cut(console.config.DSN, ":")
	if strings.HasPrefix(kept, "redis") {
		kept, _, _ = strings.Cut(console.config.AuditDSN, ":")
	}
	return console.print(map[string]string{"engine": kept, "schema": "up to date"}, "the schema of the %s database is up to date\n", kept)
}
