package policyfile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// routes reads the list of routes; policies are the names that they may use.
func (r *reader) routes(node ast.Node, policies map[string]bool) (routes domain.Routes) {
	for _, entry := range r.sequence(node, "routes") {
		before := len(r.errs)
		route := r.route(entry, policies)
		if len(r.errs) > before {
			continue
		}
		if err := routes.Add(route); err != nil {
			r.fail(entry, "route %s: %v", route.Path, err)
		}
	}
	return routes
}

func (r *reader) route(node ast.Node, policies map[string]bool) (route domain.Route) {
	members := r.members(node, "a route", "path", "methods", "key", "fallback", "policies")
	if members == nil {
		return route
	}
	for _, name := range []string{"path", "key", "policies"} {
		if members[name] == nil {
			r.fail(node, "the route has no %s", name)
		}
	}
	if path := members["path"]; path != nil {
		route.Path, _ = text(path)
		if !strings.HasPrefix(route.Path, "/") && route.Path != "*" {
			r.fail(path, "path must begin with / or be \"*\", it is %s", describe(path))
		}
	}
	if methods := members["methods"]; methods != nil {
		before, items := len(r.errs), r.sequence(methods, "methods")
		for _, item := range items {
			route.Methods = append(route.Methods, parse(r, item, "", "a method", asWritten))
		}
		if len(items) == 0 && len(r.errs) == before {
			r.fail(methods, "methods is empty; leave it out for all methods")
		}
	}
	if key := members["key"]; key != nil {
		route.Key = parse(r, key, "", "key", domain.ParseKeySource)
	}
	route.Fallback = domain.DefaultFallback(route.Path)
	if fallback := members["fallback"]; fallback != nil {
		route.Fallback = parse(r, fallback, "", "fallback", domain.ParseKeySource)
	}
	if names := members["policies"]; names != nil {
		for _, item := range r.sequence(names, "policies") {
			route.Policies = append(route.Policies, parse(r, item, "", "the name of a policy", func(name string) (string, error) {
				if !policies[name] {
					return "", fmt.Errorf("there is no policy named %q", name)
				}
				return name, nil
			}))
		}
	}
	return route
}

func asWritten(text string) (string, error) { return text, nil }

func (r *reader) clients(node ast.Node) (clients domain.ClientAddress) {
	members := r.members(node, "client_address", "trusted_proxies", "header", "ipv6_prefix")
	if trusted := members["trusted_proxies"]; trusted != nil {
		for _, item := range r.sequence(trusted, "trusted_proxies") {
			clients.Trusted = append(clients.Trusted, parse(r, item, "", "a trusted proxy", domain.ParseTrusted))
		}
	}
	if header := members["header"]; header != nil {
		clients.Header = parse(r, header, "", "header", func(name string) (string, error) { return name, domain.CheckClientHeader(name) })
	}
	if bits := members["ipv6_prefix"]; bits != nil {
		written, _ := text(bits)
		var err error
		if clients.IPv6Prefix, err = strconv.Atoi(written); err != nil || clients.IPv6Prefix == 0 || clients.Check() != nil {
			r.fail(bits, "ipv6_prefix must be a whole number from 32 to 128, it is %s", describe(bits))
		}
	}
	return clients
}

// sequence reads the items of a list; none, and an error, if it is no list.
func (r *reader) sequence(node ast.Node, of string) []ast.Node {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		r.fail(node, "%s must be a list, it is %s", of, describe(node))
		return nil
	}
	return list.Values
}
