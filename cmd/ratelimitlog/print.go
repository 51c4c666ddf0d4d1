package main

import (
	"encoding/json"
	"fmt"
)

// print writes a command's result: machine as JSON with --json, else the text.
func (c *console) print(machine any, format string, args ...any) error {
	if c.json {
		return json.NewEncoder(c.out).Encode(machine)
	}
	_, err := fmt.Fprintf(c.out, format, args...)
	return err
}
