// Command ratelimitlog is the rate limiter that remembers every decision: a
// server, and the commands that look at its database and mend it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// cli is the command line. Each flag can be given as RATELIMITLOG_<FLAG> too.
type cli struct {
	DSN          string         `default:"sqlite:ratelimitlog.db" help:"Where counters and log are kept: sqlite:FILE, sqlite::memory: or postgres://…; redis://… keeps the counters, and the log is where --audit-dsn says."`
	AuditDSN     string         `name:"audit-dsn" default:"sqlite:ratelimitlog.db" help:"Where the log is kept if --dsn is Redis: SQLite or PostgreSQL."`
	Synchronous  string         `default:"normal" enum:"normal,full" help:"What a power cut may take: normal, the last commits; full, nothing, and slower."`
	Policies     string         `type:"file" help:"YAML file of policies; \"policies example\" prints one."`
	Limit        string         `default:"60" help:"Units per window of the policy \"default\", or unlimited."`
	Window       string         `default:"1m" help:"Window of the policy \"default\": 10s, 1h30m, 1d, \"sliding 10s\" or \"calendar month Asia/Tokyo\"."`
	HashKeys     *string        `placeholder:"SECRET-FILE" help:"File with a secret of 16 to 4096 bytes: keys are stored, logged and shown as hashes by it, and nowhere as they are."`
	StoreTimeout *time.Duration `help:"How long a hit may wait for its decision. Default 250ms; with SQLite 5s."`
	LogLevel     string         `default:"info" enum:"debug,info,warn,error" help:"debug, info, warn or error."`
	LogFormat    string         `default:"console" enum:"console,json" help:"console for people, json for programs."`
	JSON         bool           `name:"json" help:"Print JSON instead of text."`

	Serve      serveCmd    `cmd:"" help:"Run the HTTP server."`
	Migrate    migrateCmd  `cmd:"" help:"Create the database, or bring its schema up to date."`
	Prune      pruneCmd    `cmd:"" help:"Remove windows that can no longer matter, and calls that the policies do not keep."`
	Hit        hitCmd      `cmd:"" help:"Decide one hit. Exit status 0: allowed, 3: refused."`
	Status     statusCmd   `cmd:"" help:"Show the counters of a key, without counting."`
	Quota      quotaCmd    `cmd:"" help:"Show or change the limits that keys have of their own."`
	Reset      resetCmd    `cmd:"" help:"Forget what a key has used; a running server notices within a second."`
	Calls      callsCmd    `cmd:"" help:"Show the audit log, newest first."`
	Verify     verifyCmd   `cmd:"" help:"Hold the audit log against the counters. Exit status 1: they do not agree, or it cannot be told."`
	Usage      usageCmd    `cmd:"" help:"Add up the units of the audit log by key, policy, path or time. They are those of each policy: a request on two counts in both."`
	Explain    explainCmd  `cmd:"" help:"Say why a key was refused, and when it passes, by the log and the counters."`
	Health     healthCmd   `cmd:"" help:"Ask a server whether it is ready. Exit status 1: it is not."`
	Backup     backupCmd   `cmd:"" help:"Copy the SQLite database into a new file, also beside a running server."`
	PolicyFile policiesCmd `cmd:"" name:"policies" help:"Check, list or show an example of a policy file."`
	Version    versionCmd  `cmd:"" help:"Show the version."`
}

// check refuses empty and zero settings, which would be taken for the defaults: an
// environment variable that a script failed to fill must not go unnoticed.
func (c *cli) check() error {
	for _, setting := range []struct {
		name  string
		empty bool
	}{
		{"dsn", c.DSN == ""}, {"limit", c.Limit == ""}, {"window", c.Window == ""},
		{"audit-dsn", c.AuditDSN == ""}, {"store-timeout", c.StoreTimeout != nil && *c.StoreTimeout == 0}, {"queue", c.Serve.Queue == 0},
		{"hash-keys", c.HashKeys != nil && *c.HashKeys == ""},
	} {
		if setting.empty {
			return &domain.InvalidError{Field: setting.name, Reason: "must not be empty or 0"}
		}
	}
	return nil
}

// console is what a command runs with.
type console struct {
	ctx      context.Context
	out, err io.Writer
	json     bool
	config   ratelimitlog.Config
}

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var flags cli
	status := -1
	parser, err := newParser(&flags, stdout, stderr, func(code int) { status = code })
	if err != nil {
		fmt.Fprintln(stderr, "ratelimitlog:", err)
		return exitError
	}
	command, err := parser.Parse(args)
	if status >= 0 { // --help was printed
		return status
	}
	if err != nil {
		fmt.Fprintln(stderr, "ratelimitlog:", err)
		fmt.Fprintln(stderr, "Run ratelimitlog --help to see what there is.")
		return exitUsage
	}
	if err := flags.check(); err != nil {
		fmt.Fprintln(stderr, "ratelimitlog:", err)
		return exitUsage
	}
	config := ratelimitlog.Config{
		DSN: flags.DSN, AuditDSN: flags.AuditDSN, Synchronous: flags.Synchronous,
		PolicyFile: flags.Policies, Limit: flags.Limit, Window: flags.Window,
		LogLevel: flags.LogLevel, LogFormat: flags.LogFormat, LogTo: stderr,
	}
	if flags.HashKeys != nil {
		config.HashKeys = *flags.HashKeys
	}
	if flags.StoreTimeout != nil {
		config.StoreTimeout = *flags.StoreTimeout
	}
	err = command.Run(&console{ctx: ctx, out: stdout, err: stderr, json: flags.JSON, config: config})
	if err != nil && !errors.As(err, new(refusal)) {
		fmt.Fprintln(stderr, "ratelimitlog:", err)
	}
	return exitStatus(err)
}

// decodePath is kong's own path, but that no text, as an empty variable has, is no path
// and not the folder that the process is in.
func decodePath(ctx *kong.DecodeContext, target reflect.Value) error {
	var path string
	if err := ctx.Scan.PopValueInto("file", &path); err != nil {
		return err
	}
	if path == "" {
		return errors.New("must not be empty")
	}
	target.SetString(kong.ExpandPath(path))
	return nil
}

// newParser reads the command line into flags. exit is called where it only asks for help.
func newParser(flags *cli, stdout, stderr io.Writer, exit func(int)) (*kong.Kong, error) {
	return kong.New(flags,
		kong.Name("ratelimitlog"),
		kong.Description("A rate limiter that remembers every decision."),
		kong.DefaultEnvars("RATELIMITLOG"),
		kong.NamedMapper("file", kong.MapperFunc(decodePath)),
		kong.Writers(stdout, stderr),
		kong.Exit(exit),
	)
}
