package policyfile

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
)

// syntaxError gives an error of the YAML parser our form.
func (r *reader) syntaxError(data []byte, err error) error {
	e := &Error{File: r.file, Line: 1, Column: 1, Message: fmt.Sprintf("this is not YAML: %v", err)}
	var located yaml.Error
	if errors.As(err, &located) {
		at := located.GetToken().Position
		e.Line, e.Column, e.Message = at.Line, at.Column, "this is not YAML: "+located.GetMessage()
		if lines := bytes.Split(data, []byte("\n")); at.Line <= len(lines) && bytes.Contains(lines[at.Line-1], []byte(": *")) {
			e.Message += "; a value that begins with * must be in quotes"
		}
	}
	return e
}

// tooDeep finds the place where lists and mappings go deeper than maxNesting, line
// 0 if there is none. It counts open brackets, and the marks of block lists that
// begin a line; deeper indentation needs more text than a file may have.
func tooDeep(data []byte) (line, column int) {
	open, line, column, leading, marks := 0, 1, 0, true, 0
	for _, c := range data {
		column++
		switch c {
		case '\n':
			line, column, leading, marks = line+1, 0, true, 0
			continue
		case '{', '[':
			open++
		case '}', ']':
			open = max(open-1, 0)
		case '-', '?', ':':
			if leading {
				marks++
			}
		}
		leading = leading && (c == ' ' || c == '-' || c == '?' || c == ':')
		if open > maxNesting || marks > maxNesting {
			return line, column
		}
	}
	return 0, 0
}
