package main

import (
	"strings"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
)

type resetCmd struct {
	Key string `arg:"" help:"Who is limited."`
	policySelection
}

func (c *resetCmd) Run(console *console) error {
	var names []string
	var key string
	err := console.withExisting(func(limiter *application.Limiter) error {
		names, key = c.names(limiter), limiter.KeptAs(c.Key)
		return limiter.Reset(console.ctx, domain.Hit{Key: c.Key, Policies: names, Origin: change("reset")})
	})
	if err != nil {
		return err
	}
	var human strings.Builder
	for _, name := range names {
		human.WriteString("policy " + name + ": " + quote(key) + " starts anew\n")
	}
	return console.print(map[string]any{"key": key, "policies": names, "reset": "done"}, "%s", human.String())
}
