package policyfile

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
)

// syntaxError gives an error of the YAML parser our form.
func (r *reader) syntaxError(err error) error {
	e := &Error{File: r.file, Line: 1, Column: 1, Message: fmt.Sprintf("this is not YAML: %v", err)}
	var located yaml.Error
	if errors.As(err, &located) {
		at := located.GetToken().Position
		e.Line, e.Column, e.Message = at.Line, at.Column, "this is not YAML: "+located.GetMessage()
	}
	return e
}
