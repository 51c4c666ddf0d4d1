package main

import (
	"runtime"
	"runtime/debug"

	"github.com/mattn/go-sqlite3"
)

type versionCmd struct{}

func (c *versionCmd) Run(console *console) error {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	sqlite, _, _ := sqlite3.Version()
	return console.print(map[string]string{"version": version, "go": runtime.Version(), "sqlite": sqlite},
		"ratelimitlog %s (%s, SQLite %s)\n", version, runtime.Version(), sqlite)
}
