package main

import (
	"fmt"
	"os"
	"time"

	"github.com/nene2-ft/ratelimitlog"
)

type backupCmd struct {
	File string `arg:"" help:"The file to make; it must not exist."`
}

func (c *backupCmd) Run(console *console) error {
	begun := time.Now()
	done := make(chan error, 1)
	go func() { done <- ratelimitlog.Backup(console.ctx, console.config, c.File) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if info, err := os.Stat(c.File + ".partial"); err == nil {
				fmt.Fprintf(console.err, "%d MiB copied\n", info.Size()>>20)
			}
			continue
		case err := <-done:
			if err != nil {
				return err
			}
		}
		info, err := os.Stat(c.File)
		if err != nil {
			return err
		}
		return console.print(map[string]any{"file": c.File, "bytes": info.Size()},
			"%s: %d bytes in %s\n", c.File, info.Size(), time.Since(begun).Round(time.Millisecond))
	}
}
