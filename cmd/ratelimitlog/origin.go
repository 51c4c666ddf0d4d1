package main

import (
	"os"
	"os/user"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// origin is how the audit log tells what a command did.
func origin(command string) domain.Origin { return domain.Origin{Method: "CLI", Path: command} }

// change is origin for a command that changes something: it tells who ran it too.
func change(command string) domain.Origin {
	at := origin(command)
	at.Actor = actor()
	return at
}

// actor is "cli USER@HOST", or what of it the system tells.
func actor() string {
	name := os.Getenv("USER")
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	if name == "" {
		name = "unknown"
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		name += "@" + host
	}
	return domain.LogText("cli " + name)
}
