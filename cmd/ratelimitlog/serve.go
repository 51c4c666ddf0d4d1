package main

import (
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/nene2-ft/ratelimitlog"
)

type serveCmd struct {
	Addr       string        `default:"127.0.0.1:8080" help:"Where to listen, host:port; port 0 takes a free one."`
	PruneEvery time.Duration `default:"1m" help:"Time between prunes; 0 never prunes."`
	Queue      int           `default:"8192" help:"How many hits may wait; further ones are answered 503."`
}

func (c *serveCmd) Run(console *console) error {
	console.config.PruneEvery, console.config.Queue = c.PruneEvery, c.Queue
	if c.PruneEvery == 0 {
		console.config.PruneEvery = -1 // 0 is the default there
	}
	listener, err := net.Listen("tcp", c.Addr) // before the database is made
	if err != nil {
		return err
	}
	defer listener.Close()
	server, cleanup, err := ratelimitlog.NewServer(console.ctx, console.config)
	if err != nil {
		return err
	}
	defer cleanup()
	if os.Getenv("GOGC") == "" {
		// Little lives long here and much is made: collecting four times as rarely as
		// Go does by itself is worth more than the few dozen MiB that it takes.
		debug.SetGCPercent(400)
	}
	fmt.Fprintf(console.out, "ratelimitlog listens on http://%s\n", listener.Addr())
	return server.Run(console.ctx, listener)
}
