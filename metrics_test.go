package ratelimitlog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/memstore"
	"github.com/nene2-ft/ratelimitlog/infrastructure/metrics"
)

// metrics are the series that the server exports now, with their labels as the text
// format has them.
func (s *service) metrics(t testing.TB) map[string]float64 {
	t.Helper()
	a := s.request(t, "GET", "/metrics")
	if a.status != 200 {
		t.Fatalf("/metrics: %d %s", a.status, a.body)
	}
	series := map[string]float64{}
	for line := range strings.Lines(a.body) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		series[line[:at]] = value
	}
	return series
}

// wantMetrics checks some of the series.
func (s *service) wantMetrics(t testing.TB, want map[string]float64) {
	t.Helper()
	got := s.metrics(t)
	for name, value := range want {
		if n, ok := got["ratelimitlog_"+name]; !ok || n != value {
			t.Errorf("%s is %v (there: %t), want %v", name, n, ok, value)
		}
	}
}

func decisions(policy, outcome string) string {
	return fmt.Sprintf("decisions_total{outcome=%q,policy=%q}", outcome, policy)
}

// slow is a store in memory that takes its time, or fails.
type slow struct {
	*memstore.Store
	delay   time.Duration
	failure atomic.Pointer[error]
}

func newSlow(delay time.Duration) *slow {
	return &slow{Store: memstore.New(memstore.Options{}), delay: delay}
}

func (s *slow) stores() *ratelimitlog.Stores {
	return &ratelimitlog.Stores{Limiter: application.Stores{Units: s, Counter: s, Quotas: s}, Log: s, Ready: s}
}

// fail lets units of work fail from now on, or no more if err is nil.
func (s *slow) fail(err error) { s.failure.Store(&err) }

func (s *slow) Do(ctx context.Context, work func(domain.Counter, domain.AuditLog) error) error {
	if err := s.failure.Load(); err != nil && *err != nil {
		return *err
	}
	time.Sleep(s.delay)
	return s.Store.Do(ctx, work)
}

func (s *slow) Ping(context.Context) error { return nil }

func TestHitsAreCountedByPolicyAndOutcome(t *testing.T) {
	s := servePoliciesWith(t, contractPolicies, nil)
	hit := func(body string) { s.post(t, "/v1/hits", body) }
	for range 3 {
		hit(`{"key":"k","policies":["burst","daily"]}`)
	}
	hit(`{"key":"k","policies":["shadow"],"cost":2}`)
	hit(`{"key":"k","policies":["free"],"cost":7}`)
	hit(`{"key":"k","policies":["free"],"cost":0}`)  // only looks
	hit(`{"key":"k","policies":["nope"]}`)           // makes no sense
	hit(`{"key":"k","policies":["free"],"cost":-1}`) // neither
	s.ping(t, "k")
	s.request(t, "GET", "/status?key=k") // waits until refusals are counted
	s.wantMetrics(t, map[string]float64{
		decisions("burst", "allowed"): 2, decisions("burst", "refused"): 1, decisions("burst", "refused_elsewhere"): 0,
		decisions("daily", "allowed"): 2, decisions("daily", "refused"): 0, decisions("daily", "refused_elsewhere"): 1,
		decisions("shadow", "allowed"): 0, decisions("shadow", "shadow_refused"): 1,
		decisions("free", "allowed"): 1, decisions("default", "allowed"): 1, decisions("blocked", "refused"): 0, // there before the first
		`hit_duration_seconds_count{outcome="allowed"}`: 5, `hit_duration_seconds_count{outcome="refused"}`: 1,
		`http_responses_total{code="200",route="/ping"}`: 1, `http_responses_total{code="429",route="/v1/hits"}`: 1, `http_responses_total{code="422",route="/v1/hits"}`: 1,
		`http_responses_total{code="404",route="/v1/hits"}`: 1,
		"policies": 7, "queued_hits": 0, "queue_capacity_hits": 8192, "uncounted_refusals": 0, "store_down": 0, "store_outages_total": 0, "commit_hits_sum": 6,
	})
}

// What clients choose makes no series.
func TestKeysPathsAndCostsMakeNoSeries(t *testing.T) { // case 167
	s := servePoliciesWith(t, contractPolicies, nil)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	ask := func(key, path string) {
		s.send(t, client, "GET", "/ping", "", "X-Client-Key", key)
		s.send(t, client, "GET", path, "")
		s.send(t, client, "GET", "/both"+path, "")
		s.send(t, client, "POST", "/v1/hits", fmt.Sprintf(`{"key":%q,"policies":["slide"],"cost":%d}`, key, 1+rand.IntN(4)))
		s.send(t, client, "POST", "/v1/hits", fmt.Sprintf(`{"key":%q,"policies":[%q]}`, key, key))
	}
	for range 10 { // until each outcome was there
		ask("first", "/first")
	}
	names := func() []string { return slices.Sorted(maps.Keys(s.metrics(t))) }
	names() // the scrape itself is counted
	before := names()
	var group sync.WaitGroup
	for c := range 16 {
		group.Go(func() {
			for i := c; i < 10_000; i += 16 {
				ask(fmt.Sprint("key-", i), fmt.Sprint("/path-", i%1000))
			}
		})
	}
	group.Wait()
	if after := names(); !slices.Equal(before, after) {
		t.Errorf("%d series before, %d after: new are %v", len(before), len(after), slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) }))
	}
}

func TestMetricsGoOnThroughReloads(t *testing.T) { // case 169
	file := filepath.Join(t.TempDir(), "policies.yaml")
	write := func(text string) {
		t.Helper()
		replaceFile(t, file, text)
	}
	write("policies: {default: {limit: 3, window: 1m}, other: {limit: 1, window: 1m}}\n")
	s := serve(t, func(c *ratelimitlog.Config) { c.PolicyFile, c.ReloadEvery = file, time.Millisecond })
	reloads := func(outcome string, n float64) {
		t.Helper()
		eventually(t, "a reload", func() bool { return s.metrics(t)[fmt.Sprintf("ratelimitlog_reloads_total{outcome=%q}", outcome)] == n })
	}
	revision := func() string { return fmt.Sprintf("%012x", int64(s.metrics(t)["ratelimitlog_policies_revision"])) }
	reloads("success", 1) // at the start
	s.ping(t, "a")
	before := s.revision(t)
	eventually(t, "the revision is exported", func() bool { return revision() == before })
	write("policies: {default: {limit: 4, window: 1m}}\n")
	reloads("success", 2)
	after := s.revision(t)
	eventually(t, "the new revision is exported", func() bool { return revision() == after && after != before })
	s.ping(t, "a")
	s.wantMetrics(t, map[string]float64{decisions("default", "allowed"): 2, decisions("other", "allowed"): 0, "policies": 1, "last_reload_success": 1})
	write("policies: nonsense\n")
	reloads("failure", 1)
	s.ping(t, "a")
	s.wantMetrics(t, map[string]float64{decisions("default", "allowed"): 3, "policies": 1, "last_reload_success": 0})
	write("policies: {default: {limit: 4, window: 1m}, new: {limit: 1, window: 1m}}\n")
	reloads("success", 3)
	s.wantMetrics(t, map[string]float64{decisions("default", "allowed"): 3, decisions("new", "refused"): 0, "policies": 2, "last_reload_success": 1})
}

// Two servers in a process have metrics of their own.
func TestServersInOneProcessAreCountedApart(t *testing.T) { // case 169
	a, b := serve(t, nil), serve(t, nil)
	a.ping(t, "k")
	a.wantMetrics(t, map[string]float64{decisions("default", "allowed"): 1})
	b.wantMetrics(t, map[string]float64{decisions("default", "allowed"): 0})
}

// A store that answers after some milliseconds: that is what the histogram says, in seconds.
func TestDurationsAreInSeconds(t *testing.T) { // case 170
	store := newSlow(7 * time.Millisecond)
	s := serveOn(t, store.stores(), nil)
	begun := time.Now()
	s.ping(t, "k")
	outside := time.Since(begun).Seconds()
	got := s.metrics(t)
	bucket := func(le string) float64 {
		return got[fmt.Sprintf(`ratelimitlog_hit_duration_seconds_bucket{outcome="allowed",le=%q}`, le)]
	}
	sum := got[`ratelimitlog_hit_duration_seconds_sum{outcome="allowed"}`]
	if sum < .007 || sum > outside || bucket("0.005") != 0 || bucket("10") != 1 {
		t.Errorf("from outside %f s, the sum is %f s, below 5 ms %v, below 10 s %v", outside, sum, bucket("0.005"), bucket("10"))
	}
	if commits := got["ratelimitlog_commit_duration_seconds_sum"]; commits < .007 || commits > outside {
		t.Errorf("the commit took %f s, from outside %f s", commits, outside)
	}
}

func TestAnOutageIsCounted(t *testing.T) {
	store := newSlow(0)
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(openAndClosed), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveOn(t, store.stores(), func(c *ratelimitlog.Config) { c.PolicyFile = file })
	for _, policy := range []string{"open", "closed", "closed"} {
		store.fail(errors.New("gone"))
		s.post(t, "/v1/hits", fmt.Sprintf(`{"key":"k","policies":[%q]}`, policy))
	}
	s.wantMetrics(t, map[string]float64{
		decisions("open", "unchecked"): 1, decisions("closed", "undecided"): 2, "store_down": 1, "store_outages_total": 1,
		`hit_duration_seconds_count{outcome="unchecked"}`: 1, `hit_duration_seconds_count{outcome="undecided"}`: 2,
		`http_responses_total{code="503",route="/v1/hits"}`: 2,
	})
	if failed := s.metrics(t)[`ratelimitlog_store_errors_total{operation="commit"}`]; failed < 1 {
		t.Errorf("%v failed commits", failed)
	}
	store.fail(nil)
	eventually(t, "the store is back", func() bool { return s.metrics(t)["ratelimitlog_store_down"] == 0 })
	s.wantMetrics(t, map[string]float64{"store_outages_total": 1})
}

// A store that was never there, or went while nobody asked, is seen by who scrapes.
func TestAnOutageIsSeenWhereNobodyHits(t *testing.T) {
	store := newSlow(0)
	store.fail(errors.New("gone"))
	s := serveOn(t, store.stores(), nil)
	for _, down := range []float64{1, 0, 1} {
		if down == 0 {
			store.fail(nil)
		} else {
			store.fail(errors.New("gone"))
		}
		eventually(t, "a scrape that knows", func() bool { return s.metrics(t)["ratelimitlog_store_down"] == down })
	}
	s.wantMetrics(t, map[string]float64{"store_outages_total": 2, decisions("default", "undecided"): 0})
}

func TestTheSizeOfTheLogIsExported(t *testing.T) {
	forEachEngine(t, func(t *testing.T, configure func(*ratelimitlog.Config)) {
		s := servePoliciesWith(t, "policies: {default: {limit: 3, window: 1m, audit: {keep: 1h}}}\n", func(c *ratelimitlog.Config) {
			configure(c)
			c.PruneEvery = 20 * time.Millisecond
		})
		for i := range 20 {
			s.ping(t, fmt.Sprint(i))
		}
		rows := func(n float64) {
			t.Helper()
			eventually(t, "the rows of the log", func() bool { return s.metrics(t)["ratelimitlog_log_rows"] == n })
		}
		rows(21) // with the one about the policy
		s.wantMetrics(t, map[string]float64{"calls_logged_total": 21, "calls_pruned_total": 0})
		got := s.metrics(t)
		_, wal := got["ratelimitlog_wal_bytes"]
		_, apart := got["ratelimitlog_unlogged_calls"]
		inFile := strings.HasPrefix(s.dsn, "sqlite:") && !strings.HasSuffix(s.dsn, ":memory:")
		redis := strings.HasPrefix(s.dsn, "redis:")
		if wal != (inFile || redis) || apart != redis {
			t.Errorf("write-ahead log exported: %t, unlogged calls: %t", wal, apart)
		}
		if bytes := got["ratelimitlog_database_bytes"]; (bytes == 0) != strings.HasSuffix(s.dsn, ":memory:") {
			t.Errorf("the database is %v bytes long", bytes)
		}
		s.clock.advance(2 * time.Hour)
		rows(1)
		s.wantMetrics(t, map[string]float64{"calls_pruned_total": 20})
	})
}

func TestTheFilesOfAPageAreCountedAsOne(t *testing.T) {
	s := serve(t, nil)
	for _, path := range []string{"/dashboard", "/dashboard/app.js", "/dashboard/uplot/uPlot.min.css", "/dashboard/nothing"} {
		s.request(t, "GET", path)
	}
	s.wantMetrics(t, map[string]float64{`http_responses_total{code="200",route="/dashboard"}`: 3, `http_responses_total{code="404",route="other"}`: 1})
}

func TestMetricsCanBeLeftOut(t *testing.T) {
	s := serve(t, func(c *ratelimitlog.Config) { c.NoMetrics = true })
	if a := s.request(t, "GET", "/metrics"); a.status != 404 {
		t.Errorf("/metrics: %d", a.status)
	}
}

// Who watches the server is neither refused nor counted as a client.
func TestNoRouteLimitsMetrics(t *testing.T) {
	s := servePoliciesWith(t, "policies: {default: {limit: 1, window: 1m}}\nroutes: [{path: /*, key: client address, policies: [default]}]\n", nil)
	for range 3 {
		s.metrics(t)
	}
	s.wantMetrics(t, map[string]float64{decisions("default", "allowed"): 0, decisions("default", "refused"): 0})
	if a := s.request(t, "POST", "/metrics"); a.status != 405 {
		t.Errorf("POST: %d", a.status)
	}
}

// Prometheus' own parser takes both formats, and names keep to its conventions.
func TestMetricsKeepToTheConventions(t *testing.T) {
	s := serve(t, nil)
	s.ping(t, "k")
	for accept, contentType := range map[string]string{"": "text/plain", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited": "application/vnd.google.protobuf", "application/openmetrics-text;version=1.0.0": "application/openmetrics-text"} {
		a := s.request(t, "GET", "/metrics", "Accept", accept)
		if !strings.HasPrefix(a.header.Get("Content-Type"), contentType) {
			t.Errorf("Accept %q: %s", accept, a.header.Get("Content-Type"))
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(s.request(t, "GET", "/metrics").body))
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for name, family := range families {
		if !strings.HasPrefix(name, "ratelimitlog_") {
			continue
		}
		ours++
		if family.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
		if counter := family.GetType().String() == "COUNTER"; counter != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, family.GetType())
		}
		if strings.HasSuffix(name, "_ms") || strings.HasSuffix(name, "_milliseconds") || strings.HasSuffix(name, "_mib") {
			t.Errorf("%s is in no base unit", name)
		}
	}
	if ours < 20 {
		t.Errorf("%d families", ours)
	}
}

// A limiter inside a Go program tells what it does to whom the program says.
func ExampleConfig_observer() {
	measured := metrics.New(ratelimitlog.Version(), application.Operations)
	ctx := context.Background()
	limiter, stop, err := ratelimitlog.NewLimiter(ctx, ratelimitlog.Config{DSN: "sqlite::memory:", Limit: "1", Observer: measured})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	for range 3 {
		limiter.Hit(ctx, domain.Hit{Key: "alice", Policies: []string{"default"}, Cost: 1})
	}
	families, err := measured.Registry().Gather() // or serve measured.Handler()
	for _, family := range families {
		if family.GetName() == "ratelimitlog_decisions_total" {
			for _, m := range family.GetMetric() {
				if n := m.GetCounter().GetValue(); n > 0 {
					fmt.Println(m.GetLabel()[0].GetValue(), n)
				}
			}
		}
	}
	// Output:
	// allowed 1
	// refused 2
}
