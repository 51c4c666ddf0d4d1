package main

import (
	"runtime"

	"github.com/mattn/go-sqlite3"

	"github.com/nene2-ft/ratelimitlog"
)

type versionCmd struct{}

func (c *versionCmd) Run(console *console) error {
	version := ratelimitlog.Version()
	sqlite, _, _ := sqlite3.Version()
	return console.print(map[string]string{"version": version, "go": runtime.Version(), "sqlite": sqlite},
		"ratelimitlog %s (%s, SQLite %s)\n", version, runtime.Version(), sqlite)
}
