package policyfile

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Example is a file that shows every member with its default or a typical value.
const Example = `# Each policy is a named limit: so many units per window, for each key.
policies:
  default:
    limit: 60        # a whole number, or unlimited; 0 blocks
    window: 1m       # fixed windows, aligned to the Unix epoch; "fixed 1m" is the same
  login:
    limit: 5
    window: sliding 15m              # the last 15 minutes at any time
  monthly:
    limit: 100000
    window: calendar month Asia/Tokyo   # day, week (from Monday), month or year in a time zone
`

// Error is one thing that is wrong with a file.
type Error struct {
	File         string
	Line, Column int // from 1
	Message      string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// Read reads the policies of a file, sorted by name. If the file is not right it
// returns one *Error for each thing that is wrong, joined.
func Read(file string) ([]domain.Policy, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read policies: %w", err)
	}
	return Parse(file, data)
}

// Parse is Read for a file that is in memory; file only names it in errors.
func Parse(file string, data []byte) ([]domain.Policy, error) {
	r := reader{file: file}
	policies := r.document(data)
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	slices.SortFunc(policies, func(a, b domain.Policy) int { return strings.Compare(a.Name, b.Name) })
	return policies, nil
}

// reader collects what is wrong, to tell all of it at once.
type reader struct {
	file string
	errs []error
}

func (r *reader) fail(node ast.Node, format string, args ...any) {
	at := node.GetToken().Position
	r.errs = append(r.errs, &Error{File: r.file, Line: at.Line, Column: at.Column, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) document(data []byte) (policies []domain.Policy) {
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		r.errs = append(r.errs, r.syntaxError(err))
		return nil
	}
	if len(parsed.Docs) != 1 || parsed.Docs[0].Body == nil {
		r.errs = append(r.errs, &Error{File: r.file, Line: 1, Column: 1, Message: "the file must hold one document with the member policies"})
		return nil
	}
	body := parsed.Docs[0].Body
	members := r.members(body, "the file", "policies")
	if members == nil {
		return nil
	}
	named := members["policies"]
	if named == nil {
		r.fail(body, "the member policies is missing")
		return nil
	}
	entries := r.mapping(named, "policies")
	if len(entries) == 0 && len(r.errs) == 0 {
		r.fail(named, "there is no policy in it")
	}
	for _, entry := range entries {
		if policy, ok := r.policy(entry); ok {
			policies = append(policies, policy)
		}
	}
	return policies
}

func (r *reader) policy(entry *ast.MappingValueNode) (policy domain.Policy, ok bool) {
	name, before := entry.Key.GetToken().Value, len(r.errs)
	if err := domain.CheckPolicyName(name); err != nil {
		r.fail(entry.Key, "%v", err)
	}
	members := r.members(entry.Value, "policy "+name, "limit", "window")
	if members == nil {
		return policy, false
	}
	limit, schedule := members["limit"], members["window"]
	var units int64
	if limit == nil {
		r.fail(entry.Key, "policy %s has no limit", name)
	} else {
		var err error
		if units, err = domain.ParseLimit(r.scalar(limit)); err != nil {
			r.fail(limit, "policy %s: %v", name, err)
		}
	}
	var windows domain.Schedule
	if schedule == nil {
		r.fail(entry.Key, "policy %s has no window", name)
	} else {
		var err error
		if windows, err = domain.ParseSchedule(r.scalar(schedule)); err != nil {
			r.fail(schedule, "policy %s: %v", name, err)
		}
	}
	if len(r.errs) > before {
		return policy, false
	}
	policy, err := domain.NewPolicy(name, units, windows)
	if err != nil {
		r.fail(entry.Key, "%v", err)
	}
	return policy, err == nil
}

// scalar is the text of a value as it is written, without quotes. What is no
// scalar has no text that anything would take.
func (r *reader) scalar(node ast.Node) string {
	if _, ok := node.(ast.ScalarNode); !ok {
		return node.Type().String()
	}
	return node.GetToken().Value
}

// members reads a mapping that may have the known members, each once.
func (r *reader) members(node ast.Node, of string, known ...string) map[string]ast.Node {
	entries := r.mapping(node, of)
	if entries == nil {
		return nil
	}
	members := map[string]ast.Node{}
	for _, entry := range entries {
		name := entry.Key.GetToken().Value
		if !slices.Contains(known, name) {
			r.fail(entry.Key, "%s has no member %q; it may have %v", of, name, known)
			continue
		}
		members[name] = entry.Value
	}
	return members
}

// mapping reads the entries of a mapping; nil, and an error, if it is none or has a
// key twice.
func (r *reader) mapping(node ast.Node, of string) []*ast.MappingValueNode {
	mapping, ok := node.(*ast.MappingNode)
	if !ok {
		r.fail(node, "%s must be a mapping, it is %s", of, describe(node))
		return nil
	}
	seen := map[string]bool{}
	for _, entry := range mapping.Values {
		name := entry.Key.GetToken().Value
		if seen[name] {
			r.fail(entry.Key, "%s has %q twice", of, name)
			return nil
		}
		seen[name] = true
	}
	return mapping.Values
}

func describe(node ast.Node) string {
	switch node.(type) {
	case *ast.NullNode:
		return "empty"
	case *ast.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%q", node.GetToken().Value)
}
