package policyfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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
  default:           # if it is left out, --limit and --window say what it is
    limit: 60        # a whole number, or unlimited; 0 blocks
    window: 1m       # fixed windows, aligned to the Unix epoch; "fixed 1m" is the same
  login:
    limit: 5
    window: sliding 15m                 # the last 15 minutes at any time
  monthly:
    limit: 100000
    window: calendar month Asia/Tokyo   # day, week (from Monday), month or year in a time zone
    shadow: true                        # default false; true counts and logs and refuses nothing
    on_store_error: closed              # the default: a hit that the store cannot decide is answered 503; open: it passes
    audit:                              # what the log has of its hits; default: all of them, for ever. Counters are exact all the same
      log: refused                      # default all; or allowed, off
      sample: 0.1                       # default 1: each of them; a tenth of them here
      keep: 30d                         # default: for ever
      max_rows: 100000                  # the newest; default: any number

# Requests that a route takes are charged one unit by each of its policies. Of
# several routes the one with the most specific path applies. All spellings of a
# path are one: case, doubled and trailing slashes, %xx, /./ and the query do not matter.
routes:
  - path: /ping                  # this route is there also if it is left out
    methods: [GET]               # default: all; GET has HEAD in it
    key: header X-Client-Key     # or: bearer, client address, constant TEXT
    fallback: constant 127.0.0.1 # for requests without it; default: client address
    policies: [default]
  - path: /api/*                 # a * is any one segment, at the end any number, also none
    key: bearer                  # the token is stored hashed
    policies: [default, monthly]

# Where the address of a client is found.
client_address:
  trusted_proxies: []            # like [127.0.0.1, 10.0.0.0/8]; default none: the header below is ignored
  header: X-Forwarded-For        # the default; or Forwarded, or another one that your proxy sets
  ipv6_prefix: 64                # the default; that many bits of an IPv6 address are one client
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

// Read reads the rules of a file, its policies sorted by name. If the file is not
// right it returns one *Error for each thing that is wrong, joined. Routes may name
// the policy "default" without the file having it.
func Read(file string) (domain.Rules, error) {
	data, err := readFile(file)
	if err != nil {
		return domain.Rules{}, fmt.Errorf("read policies: %w", err)
	}
	return Parse(file, data)
}

// maxFile is the size of the largest file, and maxNesting how deep its lists and
// mappings may go: the parser's memory grows with both.
const (
	maxFile    = 4 << 20
	maxNesting = 32
)

func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return data, err
}

// Parse is Read for a file that is in memory; file only names it in errors.
func Parse(file string, data []byte) (domain.Rules, error) {
	r := reader{file: file}
	rules := r.document(data)
	if len(r.errs) > 0 {
		return domain.Rules{}, errors.Join(r.errs...)
	}
	slices.SortFunc(rules.Policies, func(a, b domain.Policy) int { return strings.Compare(a.Name, b.Name) })
	return rules, nil
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

func (r *reader) document(data []byte) (rules domain.Rules) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // a byte order mark, which some editors write
	if line, column := tooDeep(data); line > 0 {
		r.errs = append(r.errs, &Error{File: r.file, Line: line, Column: column, Message: fmt.Sprintf("lists and mappings are nested deeper than %d", maxNesting)})
		return rules
	}
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		r.errs = append(r.errs, r.syntaxError(data, err))
		return rules
	}
	if len(parsed.Docs) != 1 || parsed.Docs[0].Body == nil {
		r.errs = append(r.errs, &Error{File: r.file, Line: 1, Column: 1, Message: "the file must hold one document with the member policies"})
		return rules
	}
	body := parsed.Docs[0].Body
	members := r.members(body, "the file", "policies", "routes", "client_address")
	if members == nil {
		return rules
	}
	named := members["policies"]
	if named == nil {
		r.fail(body, "the member policies is missing")
		return rules
	}
	entries := r.mapping(named, "policies")
	if len(entries) == 0 && len(r.errs) == 0 {
		r.fail(named, "there is no policy in it")
	}
	names := map[string]bool{domain.DefaultPolicy: true}
	for _, entry := range entries {
		names[entry.Key.GetToken().Value] = true
		if policy, ok := r.policy(entry); ok {
			rules.Policies = append(rules.Policies, policy)
		}
	}
	if routes := members["routes"]; routes != nil {
		rules.Routes = r.routes(routes, names)
	}
	if clients := members["client_address"]; clients != nil {
		rules.ClientAddress = r.clients(clients)
	}
	return rules
}

func (r *reader) policy(entry *ast.MappingValueNode) (policy domain.Policy, ok bool) {
	name, before := entry.Key.GetToken().Value, len(r.errs)
	if err := domain.CheckPolicyName(name); err != nil {
		r.fail(entry.Key, "%v", err)
	}
	members := r.members(entry.Value, "policy "+name, "limit", "window", "shadow", "on_store_error", "audit")
	if members == nil {
		return policy, false
	}
	limit, schedule := members["limit"], members["window"]
	var units int64
	if limit == nil {
		r.fail(entry.Key, "policy %s has no limit", name)
	} else {
		units = parse(r, limit, "policy "+name+": ", "limit", domain.ParseLimit)
	}
	var windows domain.Schedule
	if schedule == nil {
		r.fail(entry.Key, "policy %s has no window", name)
	} else {
		windows = parse(r, schedule, "policy "+name+": ", "window", domain.ParseSchedule)
	}
	shadow := false
	if node := members["shadow"]; node != nil {
		value, ok := node.(*ast.BoolNode)
		if !ok {
			r.fail(node, "policy %s: shadow must be true or false, it is %s", name, describe(node))
		} else {
			shadow = value.Value
		}
	}
	failOpen := false
	if node := members["on_store_error"]; node != nil {
		mode, _ := text(node)
		if failOpen = mode == "open"; !failOpen && mode != "closed" {
			r.fail(node, "policy %s: on_store_error must be open or closed, it is %s", name, describe(node))
		}
	}
	var audit domain.Audit
	if node := members["audit"]; node != nil {
		audit = r.audit(node, "policy "+name+": audit")
	}
	if len(r.errs) > before {
		return policy, false
	}
	policy, err := domain.NewPolicy(name, units, windows)
	if err != nil {
		r.fail(entry.Key, "%v", err)
	}
	policy.Shadow, policy.FailOpen, policy.Audit = shadow, failOpen, audit
	return policy, err == nil
}

// parse reads a value with a function that knows its text form; prefix and what
// say in errors what it is.
func parse[T any](r *reader, node ast.Node, prefix, what string, read func(string) (T, error)) (value T) {
	written, ok := text(node)
	if !ok {
		r.fail(node, "%s%s must be a single value, it is %s", prefix, what, describe(node))
		return value
	}
	value, err := read(written)
	if err != nil {
		r.fail(node, "%s%v", prefix, err)
	}
	return value
}

// text is a single value as it is written, without quotes; false if the node is
// something else: a list, a mapping, nothing, an alias.
func text(node ast.Node) (string, bool) {
	switch node := node.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return node.GetToken().Value, true
	case *ast.LiteralNode:
		return node.Value.Value, true
	}
	return "", false
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
	case *ast.MappingNode:
		return "a mapping"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "an anchor, an alias or a tag, which have no place here"
	}
	return fmt.Sprintf("%q", node.GetToken().Value)
}
