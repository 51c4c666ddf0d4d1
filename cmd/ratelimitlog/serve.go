package main

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/nene2-ft/ratelimitlog"
)

type serveCmd struct {
	Addr          string        `default:"127.0.0.1:8080" help:"Where to listen, host:port; port 0 takes a free one."`
	PruneEvery    time.Duration `default:"1m" help:"Time between prunes; 0 never prunes."`
	Migrate       bool          `help:"Bring the schema of a PostgreSQL database up to date first."`
	TamperEvident bool          `help:"Chain the rows of the audit log by hashes, from now on and for ever: verify then tells what was changed by hand."`
	Queue         int           `default:"8192" help:"How many hits may wait; further ones are answered 503."`

	Metrics bool `default:"true" negatable:"" help:"Answer /metrics, to everybody: there is no key in it. --no-metrics does not."`

	AdminToken  string   `help:"Token for resets and quotas; without it they are closed. Best set by the environment."`
	AuditToken  string   `help:"Token for the audit log over HTTP, which the admin token opens too; without both it is closed."`
	ClientToken string   `help:"Token for hits, counters and policies; without it they are open to everybody."`
	Dev         bool     `help:"Make an admin token for this run and print it, unless one is set, and the address of the dashboard."`
	CORSOrigins []string `name:"cors-origins" help:"Origins like https://app.example.com whose scripts may use the server, separated by commas; * is all."`
}

func (c *serveCmd) Run(console *console) error {
	console.config.PruneEvery, console.config.Queue = c.PruneEvery, c.Queue
	made := ""
	if c.Dev && c.AdminToken == "" {
		made = rand.Text()
		c.AdminToken = made
	}
	console.config.AdminToken, console.config.AuditToken, console.config.ClientToken = c.AdminToken, c.AuditToken, c.ClientToken
	console.config.CORSOrigins, console.config.Migrate, console.config.TamperEvident = c.CORSOrigins, c.Migrate, c.TamperEvident
	console.config.NoMetrics = !c.Metrics
	if c.PruneEvery == 0 {
		console.config.PruneEvery = -1 // 0 is the default there
	}
	if _, err := console.config.Rules(); err != nil { // before anything is opened
		return err
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
	if made != "" {
		fmt.Fprintf(console.out, "admin token of this run: %s\n  curl -H 'Authorization: Bearer %[1]s' 'http://%s/v1/quotas?policy=default'\n", made, listener.Addr())
	}
	if c.Dev {
		fmt.Fprintf(console.out, "dashboard: %s\n", dashboardAddress(listener.Addr(), made))
	}
	return server.Run(console.ctx, listener)
}

// dashboardAddress is where a browser on this machine opens the dashboard, and signs in
// if a token was made for this run: one that somebody chose is not printed.
func dashboardAddress(listens net.Addr, made string) string {
	host := listens.String()
	if at, ok := listens.(*net.TCPAddr); ok && at.IP.IsUnspecified() {
		host = fmt.Sprintf("127.0.0.1:%d", at.Port)
	}
	if made == "" {
		return "http://" + host + "/dashboard"
	}
	return "http://" + host + "/dashboard#token=" + made
}
