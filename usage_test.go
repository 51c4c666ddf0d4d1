package ratelimitlog_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/memstore"
)

// serveLogs runs a test on servers whose logs add up in different ways: by SQLite's own
// means, call by call, and in memory. They must answer alike.
func serveLogs(t *testing.T, test func(t *testing.T, s *service, log domain.AuditLog)) {
	for name, log := range map[string]func(*memstore.Store) domain.AuditLog{
		"a log that adds up":      func(store *memstore.Store) domain.AuditLog { return adding{store} },
		"a log that only returns": func(store *memstore.Store) domain.AuditLog { return returning{store} },
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New(memstore.Options{})
			stores := ratelimitlog.Stores{
				Limiter: application.Stores{Units: store, Counter: store, Sweeper: store, Quotas: store}, Log: log(store), Ready: alwaysReady{},
			}
			test(t, serveOn(t, &stores, withTokens), store)
		})
	}
	t.Run("SQLite", func(t *testing.T) {
		s := serve(t, withTokens)
		test(t, s, appending{t, s})
	})
}

// returning hides whatever else a log can do.
type returning struct{ domain.AuditLog }

// adding is a log that adds up, in as many pieces as there are minutes and names.
type adding struct{ domain.AuditLog }

func (a adding) Totals(ctx context.Context, query domain.TotalQuery, add func(domain.Total)) error {
	type piece struct {
		name   string
		minute int64
	}
	pieces := map[piece]*domain.Total{}
	for after := int64(0); ; {
		page, err := a.Calls(ctx, domain.CallQuery{After: after, OldestFirst: true, Limit: 100})
		if err != nil {
			return err
		}
		for i := range page {
			if after = page[i].ID; !query.Matches(&page[i]) {
				continue
			}
			total := query.Total(&page[i])
			id := piece{total.Group, page[i].At.Unix() / 60}
			if pieces[id] == nil {
				pieces[id] = &domain.Total{Group: total.Group, At: total.At}
			}
			pieces[id].Add(total)
		}
		if len(page) < 100 {
			break
		}
	}
	for _, total := range pieces {
		add(*total)
	}
	return nil
}

// appending writes to the log of a server.
type appending struct {
	t *testing.T
	s *service
}

func (a appending) Append(_ context.Context, calls []domain.Call) error {
	appendCalls(a.t, a.s, calls...)
	return nil
}

func (a appending) Calls(context.Context, domain.CallQuery) ([]domain.Call, error) { return nil, nil }

// usage asks for usage and wants groups like "alice 3 1", or of times like
// "2026-01-01T00:00:00Z 2026-01-02T00:00:00Z 3 1".
func (s *service) usage(t *testing.T, query string, want ...string) usageTold {
	t.Helper()
	a := s.request(t, "GET", "/v1/usage?"+query, bearer(auditToken)...)
	if a.status != 200 {
		t.Fatalf("%s: %d %s", query, a.status, a.body)
	}
	a.wantHeader(t, "Cache-Control", "no-store")
	var told usageTold
	decodeJSON(t, a.body, &told)
	var got []string
	for _, g := range told.Usage {
		name := g.Key + g.Policy + g.Path
		if g.Start != "" {
			name = g.Start + " " + g.End
		}
		got = append(got, fmt.Sprint(name, " ", g.Allowed, " ", g.Refused))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant\n%s", query, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return told
}

type usageTold struct {
	By, From, To, Zone string
	Partial            bool
	Groups             int
	Allowed, Refused   int64
	Usage              []struct {
		Key, Policy, Path, Start, End string
		Allowed, Refused              int64
	}
}

// hitAt is a call of alice at a time.
func hitAt(t *testing.T, at string, units int64) domain.Call {
	t.Helper()
	when := instant(t, at)
	return domain.Call{
		Kind: domain.CallHit, At: when.UTC(), Policy: "default", Key: "alice", Cost: units, Hits: 1, Allowed: true, Count: units, Limit: 1000,
		WindowStart: when.UTC().Truncate(time.Minute), Schedule: "fixed 1m", Origin: domain.Origin{Method: "GET", Path: "/ping"},
	}
}

func TestDaysAndHoursAreCivilAlsoWhereClocksChange(t *testing.T) {
	for _, c := range []struct {
		name, query string
		hits        []string // a unit more each
		want        []string
	}{
		{"days of Berlin, one of 25 hours", "by=day&zone=Europe/Berlin&from=2026-10-24T00:00:00Z&to=2026-10-28T00:00:00Z",
			[]string{"2026-10-24T21:59:59.999Z", "2026-10-24T22:00:00Z", "2026-10-25T22:59:59.999Z", "2026-10-25T23:00:00Z"},
			[]string{"2026-10-24T00:00:00+02:00 2026-10-25T00:00:00+02:00 1 0", "2026-10-25T00:00:00+02:00 2026-10-26T00:00:00+01:00 5 0", "2026-10-26T00:00:00+01:00 2026-10-27T00:00:00+01:00 4 0"}},
		{"days of Berlin, one of 23 hours", "by=day&zone=Europe/Berlin&from=2026-03-28T00:00:00Z&to=2026-04-01T00:00:00Z",
			[]string{"2026-03-28T23:00:00Z", "2026-03-29T21:59:59Z", "2026-03-29T22:00:00Z"},
			[]string{"2026-03-29T00:00:00+01:00 2026-03-30T00:00:00+02:00 3 0", "2026-03-30T00:00:00+02:00 2026-03-31T00:00:00+02:00 3 0"}},
		{"an hour that comes twice", "by=hour&zone=Europe/Berlin&from=2026-10-24T00:00:00Z&to=2026-10-28T00:00:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T01:59:59Z"},
			[]string{"2026-10-25T02:00:00+02:00 2026-10-25T02:00:00+01:00 1 0", "2026-10-25T02:00:00+01:00 2026-10-25T03:00:00+01:00 5 0"}},
		{"hours of Kolkata begin at half past", "by=hour&zone=Asia/Kolkata&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z",
			[]string{"2026-01-01T00:29:59Z", "2026-01-01T00:30:00Z", "2026-01-01T01:29:59Z"},
			[]string{"2026-01-01T05:00:00+05:30 2026-01-01T06:00:00+05:30 1 0", "2026-01-01T06:00:00+05:30 2026-01-01T07:00:00+05:30 5 0"}},
		{"days of Kolkata", "by=day&zone=Asia/Kolkata&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z",
			[]string{"2026-01-01T18:29:59Z", "2026-01-01T18:30:00Z"},
			[]string{"2026-01-01T00:00:00+05:30 2026-01-02T00:00:00+05:30 1 0", "2026-01-02T00:00:00+05:30 2026-01-03T00:00:00+05:30 2 0"}},
		{"days of St. John's, one of 25 hours", "by=day&zone=America/St_Johns&from=2026-10-31T00:00:00Z&to=2026-11-04T00:00:00Z",
			[]string{"2026-11-01T02:29:59Z", "2026-11-01T02:30:00Z", "2026-11-02T03:29:59Z", "2026-11-02T03:30:00Z"},
			[]string{"2026-10-31T00:00:00-02:30 2026-11-01T00:00:00-02:30 1 0", "2026-11-01T00:00:00-02:30 2026-11-02T00:00:00-03:30 5 0", "2026-11-02T00:00:00-03:30 2026-11-03T00:00:00-03:30 4 0"}},
		{"months", "by=month&zone=America/St_Johns&from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00Z",
			[]string{"2026-02-28T12:00:00Z", "2026-03-01T03:29:59Z", "2026-03-01T03:30:00Z"},
			[]string{"2026-02-01T00:00:00-03:30 2026-03-01T00:00:00-03:30 3 0", "2026-03-01T00:00:00-03:30 2026-04-01T00:00:00-02:30 3 0"}},
		{"minutes", "by=minute&from=2026-01-01T00:00:00Z&to=2026-01-01T00:02:00Z",
			[]string{"2026-01-01T00:00:59.999Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"}, // the last one is not in the span
			[]string{"2026-01-01T00:00:00Z 2026-01-01T00:01:00Z 1 0", "2026-01-01T00:01:00Z 2026-01-01T00:02:00Z 2 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			serveLogs(t, func(t *testing.T, s *service, log domain.AuditLog) {
				var calls []domain.Call
				for i, at := range c.hits {
					calls = append(calls, hitAt(t, at, int64(i+1)))
				}
				other := hitAt(t, c.hits[0], 100)
				other.Key = "bob"
				if err := log.Append(t.Context(), append(calls, other)); err != nil {
					t.Fatal(err)
				}
				s.usage(t, c.query+"&key=alice", c.want...)
			})
		})
	}
}

func TestUsageTellsTheTopAndTheSumOfAll(t *testing.T) {
	serveLogs(t, func(t *testing.T, s *service, log domain.AuditLog) {
		var calls []domain.Call
		add := func(key, path string, allowed bool, cost, hits int64) {
			call := hitAt(t, "2026-01-01T00:00:05Z", cost)
			call.Key, call.Path, call.Allowed, call.Hits = key, path, allowed, hits
			calls = append(calls, call)
		}
		add("b", "/x", true, 5, 1)
		add("a", "/x", true, 2, 1)
		add("a", "/y", false, 1, 3) // three hits in one row: a tie with b
		add("B", "/y", false, 3, 4)
		add("c", "/z", true, 1, 1)
		reset, quota := calls[0], calls[0]
		reset.Kind, quota.Kind = domain.CallReset, domain.CallUnchecked
		if err := log.Append(t.Context(), append(calls, reset, quota)); err != nil {
			t.Fatal(err)
		}
		told := s.usage(t, "by=key&top=3", "B 0 12", "a 2 3", "b 5 0")
		if told.Groups != 4 || told.Allowed != 8 || told.Refused != 15 || told.Partial || told.Zone != "UTC" || told.To != "2026-01-01T00:00:11Z" || told.From != "2025-12-31T00:00:11Z" {
			t.Errorf("%+v", told)
		}
		s.usage(t, "by=key", "B 0 12", "a 2 3", "b 5 0", "c 1 0")
		s.usage(t, "", "B 0 12", "a 2 3", "b 5 0", "c 1 0") // by key, as the command has it
		if told = s.usage(t, "to=1970-01-01T00:00:01Z"); told.From != "1970-01-01T00:00:00Z" {
			t.Errorf("%+v", told)
		}
		s.usage(t, "by=path", "/y 0 15", "/x 7 0", "/z 1 0")
		s.usage(t, "by=policy&key=a", "default 2 3")
		s.usage(t, "by=key&path=/x", "b 5 0", "a 2 0")
		s.usage(t, "by=key&policy=other")
		if told = s.usage(t, "by=key&to=2026-01-01T00:00:05Z"); told.Groups != 0 || told.Allowed != 0 {
			t.Errorf("%+v", told)
		}
		huge := hitAt(t, "2026-01-01T00:00:06Z", domain.MaxUnits)
		huge.Hits, huge.Coverage = math.MaxInt64/2, "allowed"
		if err := log.Append(t.Context(), []domain.Call{huge, huge}); err != nil {
			t.Fatal(err)
		}
		if told = s.usage(t, "by=key&top=1", fmt.Sprint("alice ", int64(math.MaxInt64), " 0")); told.Allowed != math.MaxInt64 || !told.Partial {
			t.Errorf("%+v", told)
		}
	})
}

// What the log adds up to is what the counters hold.
func TestUsageIsTheSumOfTheCounters(t *testing.T) {
	s := serve(t, withTokens)
	for i := range 40 { // refusals are answered from memory at times
		s.do(t, "POST", "/v1/hits", fmt.Sprintf(`{"key":"k%d","policies":["default"],"cost":%d}`, i%3, 1+i%2))
		s.clock.advance(3 * time.Second)
	}
	told := s.usage(t, "by=policy&to=2026-01-02T00:00:00Z", fmt.Sprintf("default %d %d",
		count(t, s.dsn, "SELECT 'n', sum(count - refused) FROM rate_limit_windows")["n"], count(t, s.dsn, "SELECT 'n', sum(refused) FROM rate_limit_windows")["n"]))
	if told.Refused == 0 || told.Allowed+told.Refused != 60 {
		t.Errorf("%+v", told)
	}
}

func TestUsageThatMakesNoSenseIsRefused(t *testing.T) {
	s := serve(t, withTokens)
	minutes := []domain.Call{}
	for i := range 1001 {
		minutes = append(minutes, hitAt(t, newYear.Add(time.Duration(i)*time.Minute).Format(time.RFC3339), 1))
	}
	appendCalls(t, s, minutes...)
	for query, want := range map[string]string{
		"by=":                             `"parameter":"by"`,
		"by=day&top=5":                    `"parameter":"top"`,
		"by=minute&top=10":                `"parameter":"top"`,
		"by=key&zone=UTC":                 `"parameter":"zone"`,
		"zone=Europe/Berlin":              `"parameter":"zone"`,
		"to=0001-01-01T00:00:00Z":         `"parameter":"to"`,
		"from=1969-12-31T23:59:59Z":       `"parameter":"from"`,
		"to=9999-01-01T00:00:00Z":         `"parameter":"to"`,
		"to=1970-01-01T00:00:00Z":         `must be after from","parameter":"to"`,
		"by=week":                         `must be key, policy, path, minute, hour, day or month","parameter":"by"`,
		"by=key&by=policy":                `"parameter":"by"`,
		"by=key&top=0":                    `"parameter":"top"`,
		"by=key&top=1001":                 `"parameter":"top"`,
		"by=key&top=many":                 `"parameter":"top"`,
		"by=key&zone=Mars/Olympus":        `"parameter":"zone"`,
		"by=key&zone=Local":               `"parameter":"zone"`,
		"by=key&zone=":                    `"parameter":"zone"`,
		"by=key&from=yesterday":           `"parameter":"from"`,
		"by=key&from=2026-01-01T00:00:00": `"parameter":"from"`, // no offset
		"by=key&from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z": `"parameter":"to"`,
		"by=key&to=1":         `"parameter":"to"`,
		"by=key&limit=5":      `"parameter":"limit"`,
		"by=key&key=a%01":     `"parameter":"key"`,
		"by=key&policy=a%20b": `"parameter":"policy"`,
		"by=key&%zz":          `the query is malformed`,
		"by=minute&to=2026-01-02T00:00:00Z&from=2026-01-01T00:00:00Z": `by is minute, which would be 1001 groups; at most 1000 are told`,
	} {
		if a := s.request(t, "GET", "/v1/usage?"+query, bearer(auditToken)...); a.status != 422 || !strings.Contains(a.body, want) {
			t.Errorf("%q: %d %s, want 422 with %s", query, a.status, a.body, want)
		}
	}
	if a := s.request(t, "GET", "/v1/usage?by=minute&to=2026-01-01T16:40:00Z", bearer(auditToken)...); a.status != 200 || strings.Count(a.body, `"start"`) != 1000 {
		t.Errorf("1000 minutes: %d", a.status)
	}
	for status, headers := range map[int][]string{401: nil, 403: bearer(clientToken), 200: bearer(adminToken)} {
		if a := s.send(t, http.DefaultClient, "GET", "/v1/usage?by=key", "", headers...); a.status != status {
			t.Errorf("with %v: %d", headers, a.status)
		}
	}
	mustExec(t, s.dsn, `ALTER TABLE api_calls RENAME TO elsewhere`)
	if a := s.request(t, "GET", "/v1/usage?by=key", bearer(auditToken)...); a.status != 503 || strings.Contains(a.body, "api_calls") {
		t.Errorf("without a log: %d %s", a.status, a.body)
	}
}

func TestUsageTellsWhoWasRefusedMost(t *testing.T) {
	s := serve(t, withTokens)
	for i, pings := range []int{1, 9, 2, 5, 3} {
		for range pings {
			s.ping(t, fmt.Sprint("key-", i))
		}
	}
	s.usage(t, "by=key&order=refused", "key-1 3 6", "key-3 3 2")
	s.usage(t, "by=key&top=1&order=refused", "key-1 3 6")
	for _, order := range []string{"allowed", "desc"} {
		if a := s.do(t, "GET", "/v1/usage?order="+order, ""); a.status != 422 || !strings.Contains(a.body, `"parameter":"order"`) {
			t.Errorf("%s: %d %s", order, a.status, a.body)
		}
	}
	if a := s.do(t, "GET", "/v1/usage?by=hour&order=refused", ""); a.status != 422 {
		t.Errorf("by hour: %d %s", a.status, a.body)
	}
}
