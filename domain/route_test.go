package domain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func routes(t *testing.T, list ...domain.Route) *domain.Routes {
	t.Helper()
	var routes domain.Routes
	for _, route := range list {
		if route.Policies == nil {
			route.Policies = []string{"p"}
		}
		if err := routes.Add(route); err != nil {
			t.Fatal(err)
		}
	}
	return &routes
}

func TestTheMostSpecificRouteApplies(t *testing.T) { // case 95
	r := routes(t,
		domain.Route{Path: "*"}, domain.Route{Path: "/api/*"}, domain.Route{Path: "/api/*/orders"}, domain.Route{Path: "/api/users/*"},
		domain.Route{Path: "/API/Users/me/", Methods: []string{"GET"}}, domain.Route{Path: "/api/users/me", Methods: []string{"POST", "PUT"}}, domain.Route{Path: "/"},
	)
	for request, want := range map[string]string{
		"GET /":                   "/",
		"GET //?x":                "/",
		"GET /nope":               "/*",
		"GET /apix":               "/*",
		"GET /api":                "/api/*",
		"GET /api/":               "/api/*",
		"GET /api/x/y/z":          "/api/*",
		"GET /api/x/orders":       "/api/*/orders",
		"GET /api/users/orders":   "/api/users/*",
		"GET /api/users":          "/api/users/*",
		"GET /api/users/me":       "/api/users/me",
		"HEAD /api/users/me":      "/api/users/me",
		"PUT /%61PI/users/./Me/":  "/api/users/me",
		"DELETE /api/users/me":    "/api/users/*",
		"DELETE /api/users/me/x/": "/api/users/*",
		"OPTIONS *":               "/*",
	} {
		method, path, _ := strings.Cut(request, " ")
		found, err := r.Match(method, path)
		if err != nil || len(found) == 0 || found[0].Path != want {
			t.Errorf("%s takes %+v, %v, want %s", request, found, err, want)
		}
	}
	if found, err := routes(t, domain.Route{Path: "/a"}).Match("GET", "/b"); found != nil || err != nil {
		t.Errorf("/b takes %+v, %v", found, err)
	}
	if found, err := (&domain.Routes{}).Match("GET", "/"); found != nil || err != nil {
		t.Errorf("no route is %+v, %v", found, err)
	}
}

func TestRoutesThatMakeNoSenseAreRefused(t *testing.T) {
	header, err := domain.ParseKeySource("header X")
	if err != nil {
		t.Fatal(err)
	}
	for want, route := range map[string]domain.Route{
		`path "a" does not begin with /`:                {Path: "a"},
		`path "" does not begin with /`:                 {},
		`path "/a?b" has one of ? # % ; \`:              {Path: "/a?b"},
		`path "/a%62" has one of`:                       {Path: "/a%62"},
		`path "/a/../b" has the segment ".."`:           {Path: "/a/../b"},
		`path "/a*/b" has a * within a segment`:         {Path: "/a*/b"},
		`methods has "get", which is no method`:         {Path: "/a", Methods: []string{"get"}},
		`methods has "", which is no method`:            {Path: "/a", Methods: []string{""}},
		`methods name GET twice`:                        {Path: "/a", Methods: []string{"GET", "GET"}},
		`fallback is "header X"`:                        {Path: "/a", Fallback: header},
		`policies must name at least one policy`:        {Path: "/a", Policies: []string{}},
		`policies name "p" twice`:                       {Path: "/a", Policies: []string{"p", "p"}},
		`path /taken has a route already`:               {Path: "/TAKEN/"},
		`path /got has a route already for the same me`: {Path: "/got", Methods: []string{"HEAD"}},
		`path /* has a route already`:                   {Path: "/*"},
	} {
		r := routes(t, domain.Route{Path: "/taken"}, domain.Route{Path: "/got", Methods: []string{"GET"}}, domain.Route{Path: "*"})
		if route.Policies == nil {
			route.Policies = []string{"p"}
		}
		err := r.Add(route)
		var invalid *domain.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", route, err, want)
		}
	}
	rules := domain.Rules{Routes: *routes(t, domain.Route{Path: "/a", Policies: []string{"nope"}})}
	if err := rules.Check(); err == nil || !strings.Contains(err.Error(), `policies of route /a name "nope", which is not defined`) {
		t.Errorf("err = %v", err)
	}
}

func TestKeySourcesHaveOneText(t *testing.T) {
	for _, text := range []string{"client address", "bearer", "header X-Api-Key", "header x_y", "constant everyone", "constant a b"} {
		if source, err := domain.ParseKeySource(text); err != nil || source.String() != text {
			t.Errorf("%q is %v, %v", text, source, err)
		}
	}
	for text, want := range map[string]string{
		"": "is not known", "address": "is not known", "Header X": "is not known", "client  address": "is not known", "bearer x": "is not known",
		"header": "must be named", "header ": "must be named", "header X Y": `has ' ' at byte 1`, "header X:": `has ':' at byte 1`, "header é": "at byte 0",
		"header Authorization": "write \"bearer\"", "header COOKIE": "secrets", "header X-Forwarded-For": "write \"client address\"", "header forwarded": "write \"client address\"",
		"constant": "must not be empty", "constant ip:10.1.1.1": "begin like keys of other sources", "constant header:x": "begin like", "constant \x01": "control character",
	} {
		if source, err := domain.ParseKeySource(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v; want %s", text, source, err, want)
		}
	}
}

// Keys of one source never are keys of another.
func TestKeysFromDifferentSourcesNeverMeet(t *testing.T) {
	r := domain.Route{Path: "/", Policies: []string{"p"}}
	key := func(source string, request *fakeRequest) string {
		t.Helper()
		var err error
		if r.Key, err = domain.ParseKeySource(source); err != nil {
			t.Fatal(err)
		}
		got, err := r.KeyOf(request, &domain.ClientAddress{})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	from := func(headers ...string) *fakeRequest { return newRequest("203.0.113.7:99", headers...) }
	for _, c := range []struct {
		source  string
		request *fakeRequest
		want    string
	}{
		{"client address", from(), "ip:203.0.113.7"},
		{"header X", from("X", "alice"), "alice"},
		{"header X", from("X", " \t alice \t"), "alice"},
		{"header X", from("X", "ip:203.0.113.7"), "header:ip:203.0.113.7"},
		{"header X", from("X", "header:ip:203.0.113.7"), "header:header:ip:203.0.113.7"},
		{"header X", from("X", "bearer:abc"), "header:bearer:abc"},
		{"header X", from(), "ip:203.0.113.7"},
		{"header X", from("X", " "), "ip:203.0.113.7"},
		{"bearer", from("Authorization", "Bearer sk_live_abc"), "bearer:b2817799acd7f3337c32f967a7c4ca32"},
		{"bearer", from("Authorization", "bEARER  sk_live_abc "), "bearer:b2817799acd7f3337c32f967a7c4ca32"},
		{"bearer", from("Authorization", "Basic sk_live_abc"), "ip:203.0.113.7"},
		{"bearer", from("Authorization", "Bearer"), "ip:203.0.113.7"},
		{"bearer", from(), "ip:203.0.113.7"},
		{"constant all", from("X", "alice"), "all"},
	} {
		if got := key(c.source, c.request); got != c.want {
			t.Errorf("%s of %v is %q, want %q", c.source, c.request, got, c.want)
		}
	}
	r.Key, _ = domain.ParseKeySource("header X")
	_, err := r.KeyOf(from("X", "a", "X", "a"), &domain.ClientAddress{})
	var invalid *domain.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "X" {
		t.Errorf("two lines: %v", err)
	}
}

func TestPingHasARouteWithAFallback(t *testing.T) { // case 52, D6
	ping := domain.PingRoute()
	for value, want := range map[string]string{"": "127.0.0.1", "0": "0", "127.0.0.1": "127.0.0.1"} {
		if got, err := ping.KeyOf(newRequest("192.0.2.1:1", "X-Client-Key", value), &domain.ClientAddress{}); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", value, got, err, want)
		}
	}
	if got := fmt.Sprint(domain.DefaultFallback("/PING/"), ", ", domain.DefaultFallback("/x")); got != "constant 127.0.0.1, client address" {
		t.Errorf("default fallbacks are %s", got)
	}
}
