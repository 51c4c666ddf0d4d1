package policyfile

import (
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
		route.Path = r.scalar(path)
		if !strings.HasPrefix(route.Path, "/") && route.Path != "*" {
			r.fail(path, "path must begin with / or be \"*\", it is %s", describe(path))
		}
	}
	if methods := members["methods"]; methods != nil {
		items := r.sequence(methods, "methods")
		for _, item := range items {
			route.Methods = append(route.Methods, r.scalar(item))
		}
		if len(items) == 0 {
			r.fail(methods, "methods is empty; leave it out for all methods")
		}
	}
	route.Key = r.keySource(members["key"])
	route.Fallback = domain.DefaultFallback(route.Path)
	if fallback := members["fallback"]; fallback != nil {
		route.Fallback = r.keySource(fallback)
	}
	if names := members["policies"]; names != nil {
		for _, item := range r.sequence(names, "policies") {
			name := r.scalar(item)
			if !policies[name] {
				r.fail(item, "there is no policy named %q", name)
			}
			route.Policies = append(route.Policies, name)
		}
	}
	return route
}

func (r *reader) keySource(node ast.Node) (source domain.KeySource) {
	if node == nil {
		return source
	}
	source, err := domain.ParseKeySource(r.scalar(node))
	if err != nil {
		r.fail(node, "%v", err)
	}
	return source
}

func (r *reader) clients(node ast.Node) (clients domain.Clients) {
	members := r.members(node, "client_address", "trusted_proxies", "header", "ipv6_prefix")
	if trusted := members["trusted_proxies"]; trusted != nil {
		for _, item := range r.sequence(trusted, "trusted_proxies") {
			prefix, err := domain.ParseTrusted(r.scalar(item))
			if err != nil {
				r.fail(item, "%v", err)
			}
			clients.Trusted = append(clients.Trusted, prefix)
		}
	}
	if header := members["header"]; header != nil {
		clients.Header = r.scalar(header)
		if err := domain.CheckClientHeader(clients.Header); err != nil {
			r.fail(header, "%v", err)
		}
	}
	if bits := members["ipv6_prefix"]; bits != nil {
		var err error
		clients.IPv6Prefix, err = strconv.Atoi(r.scalar(bits))
		if err != nil || clients.IPv6Prefix == 0 {
			clients.IPv6Prefix = -1
		}
		if clients.Check() != nil {
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
