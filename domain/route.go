package domain

import (
	"fmt"
	"slices"
	"strings"
)

// Route says by which policies the requests of some paths are limited, and who is
// limited.
type Route struct {
	// Path is compared with that of a request, whatever the spelling of that. A
	// segment that is "*" stands for any one segment, at the end for any number of
	// them, also none: "/api/*" has "/api" in it, and "*" everything.
	Path string
	// Methods are those of the requests; empty means all. GET has HEAD in it.
	Methods []string
	// Key is who is limited, and Fallback who it is where a request does not tell;
	// Fallback is the client's address or a constant, so that nobody is unlimited.
	Key, Fallback KeySource
	// Policies must all allow a request. It is charged one unit by each.
	Policies []string

	segments []string // of Path
}

// Routes are routes of which the most specific one applies to a request. The zero
// value has none. It is not safe for concurrent use while routes are added.
type Routes struct {
	exact    map[string][]*Route // those without "*", by path
	patterns []*Route            // the others, the most specific first
}

// Add adds a route. One that makes no sense, or that has a path and a method in
// common with one that is there, is an *InvalidError.
func (r *Routes) Add(route Route) error {
	if err := route.prepare(); err != nil {
		return err
	}
	for _, other := range r.All() {
		if other.Path == route.Path && meet(other.Methods, route.Methods) {
			return &InvalidError{"path", fmt.Sprintf("%s has a route already for the same methods", route.Path)}
		}
	}
	if !slices.Contains(route.segments, "*") {
		if r.exact == nil {
			r.exact = map[string][]*Route{}
		}
		r.exact[route.Path] = append(r.exact[route.Path], &route)
		return nil
	}
	r.patterns = append(r.patterns, &route)
	slices.SortStableFunc(r.patterns, compareRoutes)
	return nil
}

// prepare checks the route and brings its path into canonical form.
func (r *Route) prepare() error {
	switch {
	case r.Path == "*":
		r.Path = "/*"
	case !strings.HasPrefix(r.Path, "/"):
		return &InvalidError{"path", fmt.Sprintf("%q does not begin with /", r.Path)}
	case strings.ContainsAny(r.Path, `?#%;\`):
		return &InvalidError{"path", fmt.Sprintf("%q has one of ? # %% ; \\, which have no place in the path of a route", r.Path)}
	}
	read := manners{}.read(r.Path)
	r.Path, r.segments = read.path, read.segments
	for _, segment := range r.segments {
		if segment == "." || segment == ".." {
			return &InvalidError{"path", fmt.Sprintf("%q has the segment %q", r.Path, segment)}
		}
		if segment != "*" && strings.Contains(segment, "*") {
			return &InvalidError{"path", fmt.Sprintf("%q has a * within a segment; it stands for a whole one", r.Path)}
		}
	}
	r.Methods = slices.Clone(r.Methods)
	for i, method := range r.Methods {
		if err := checkToken("methods", method); err != nil || strings.ToUpper(method) != method {
			return &InvalidError{"methods", fmt.Sprintf("has %q, which is no method; they are in upper case", method)}
		}
		if slices.Contains(r.Methods[:i], method) {
			return &InvalidError{"methods", fmt.Sprintf("name %s twice", method)}
		}
	}
	if slices.Contains(r.Methods, "GET") && !slices.Contains(r.Methods, "HEAD") {
		r.Methods = append(r.Methods, "HEAD")
	}
	if !r.Fallback.always() {
		return &InvalidError{"fallback", fmt.Sprintf("is %q, it must be \"client address\" or \"constant TEXT\"", r.Fallback)}
	}
	if len(r.Policies) == 0 {
		return &InvalidError{"policies", "must name at least one policy"}
	}
	for i, name := range r.Policies {
		if slices.Contains(r.Policies[:i], name) {
			return &InvalidError{"policies", fmt.Sprintf("name %q twice", name)}
		}
	}
	return nil
}

// All are the routes, the most specific ones first.
func (r *Routes) All() []*Route {
	var all []*Route
	for _, routes := range r.exact {
		all = append(all, routes...)
	}
	slices.SortStableFunc(all, compareRoutes)
	return append(all, r.patterns...)
}

// Match are the routes that a request of this method and path takes: of each way
// in which the path can be read (see path.go) the most specific one, those of the
// most lenient reading first. Nearly always that is one route or none. A path that
// is too long to be read in all ways is an *InvalidError.
func (r *Routes) Match(method, path string) ([]*Route, error) {
	if len(r.exact) == 0 && len(r.patterns) == 0 {
		return nil, nil
	}
	if isCanonical(path) { // in the way of nearly all requests, so without any memory
		if found := exactly(r.exact[path], method); found != nil || len(r.patterns) == 0 {
			return found, nil
		}
		return r.match(method, manners{}.read(path)), nil
	}
	ways, err := readings(path)
	var all []*Route
	for _, way := range ways {
		for _, route := range r.match(method, way) {
			if !slices.Contains(all, route) {
				all = append(all, route)
			}
		}
	}
	return all, err
}

// match is the most specific route of one reading, in a list of one, or none.
func (r *Routes) match(method string, way reading) []*Route {
	if found := exactly(r.exact[way.path], method); found != nil {
		return found
	}
	for i, route := range r.patterns {
		if route.takes(method) && matches(route.segments, way.segments) {
			return r.patterns[i : i+1 : i+1]
		}
	}
	return nil
}

// exactly is the one of the routes that takes the method.
func exactly(routes []*Route, method string) []*Route {
	for i, route := range routes {
		if route.takes(method) {
			return routes[i : i+1 : i+1]
		}
	}
	return nil
}

// KeyOf is the key of a request on this route, never empty. A header of which it
// cannot be told is an *InvalidError whose Field is the header's name.
func (r *Route) KeyOf(request Request, clients *ClientAddress) (string, error) {
	key, err := r.Key.key(request, clients)
	if err != nil || key != "" {
		return key, err
	}
	return r.Fallback.key(request, clients)
}

func (r *Route) takes(method string) bool {
	return len(r.Methods) == 0 || slices.Contains(r.Methods, method)
}

// meet reports whether two lists of methods have one in common.
func meet(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(method string) bool { return slices.Contains(b, method) })
}

func matches(pattern, path []string) bool {
	for i, segment := range pattern {
		if segment == "*" && i == len(pattern)-1 {
			return true
		}
		if i >= len(path) || segment != "*" && segment != path[i] {
			return false
		}
	}
	return len(pattern) == len(path)
}

// compareRoutes puts the more specific of two routes first: segment by segment an
// end comes before a literal, that before "*" for one segment, and that before "*"
// at the end. Of two routes that take the same path one comes clearly first.
func compareRoutes(a, b *Route) int {
	rank := func(r *Route, i int) int {
		switch {
		case i >= len(r.segments):
			return 0
		case r.segments[i] != "*":
			return 1
		case i < len(r.segments)-1:
			return 2
		}
		return 3
	}
	for i := range max(len(a.segments), len(b.segments)) {
		if ra, rb := rank(a, i), rank(b, i); ra != rb {
			return ra - rb
		}
	}
	return strings.Compare(a.Path, b.Path)
}
