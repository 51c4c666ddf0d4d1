// Package metrics counts what a limiter and its server do, for Prometheus. What a client
// chooses, like a key or a path, is in no label: there are as many series as policies,
// routes and outcomes, whatever is asked.
package metrics

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/nene2-ft/ratelimitlog/domain"
)

const namespace = "ratelimitlog"

// The outcomes of a hit under a policy.
const (
	allowed          = iota
	refused          // by this policy
	refusedElsewhere // by another policy of the hit: this one had room and was not charged
	shadowRefused    // by this policy in shadow, so it may have passed
	unchecked        // allowed, because the store could not decide and the policy is open to that
	undecided        // no decision: the store failed, or too many hits waited
	outcomes
)

var outcomeNames = [outcomes]string{"allowed", "refused", "refused_elsewhere", "shadow_refused", "unchecked", "undecided"}

// Metrics are the metrics of one limiter and its server, in a registry of their own, so
// that there may be several in a process. They are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	decisions *family[string, *[outcomes]prometheus.Counter]
	responses *family[response, prometheus.Counter]
	hits      [outcomes]prometheus.Observer // by outcome of the hit; nil for those that only a policy has

	commitHits, commitSeconds               prometheus.Observer
	callsLogged, callsPruned, windowsPruned prometheus.Counter
	storeErrors                             *prometheus.CounterVec
	outages                                 prometheus.Counter
	reloaded, notReloaded                   prometheus.Counter
	lastReload, policies, revision          prometheus.Gauge
}

// response is what HTTP answers are told apart by.
type response struct {
	route string
	code  int
}

// maxPolicies is how many names of policies are told apart as long as the process runs,
// reloads included. Those beyond are counted together, under a name that no policy has.
const (
	maxPolicies = 1000
	others      = "(others)"
)

// hitBuckets reach from a refusal from memory to the longest time that a hit waits.
var hitBuckets = []float64{.000_01, .000_05, .000_1, .000_25, .000_5, .001, .002_5, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// New makes metrics of a program of that version. operations are what the store may be
// told to have failed at.
func New(version string, operations []string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	ours := promauto.With(prometheus.WrapRegistererWithPrefix(namespace+"_", m.registry))

	decisions := ours.NewCounterVec(prometheus.CounterOpts{Name: "decisions_total",
		Help: "Hits by policy and by what they came to under it; one on two policies is in both. refused_elsewhere: another policy of the hit refused, this one was not charged; shadow_refused: it passed if no other refused; unchecked: allowed without the store; undecided: answered 503."},
		[]string{"policy", "outcome"})
	m.decisions = newFamily(maxPolicies, others, func(policy string) *[outcomes]prometheus.Counter {
		var series [outcomes]prometheus.Counter
		for outcome := range series {
			series[outcome] = decisions.WithLabelValues(policy, outcomeNames[outcome])
		}
		return &series
	})
	hits := ours.NewHistogramVec(prometheus.HistogramOpts{Name: "hit_duration_seconds", Buckets: hitBuckets,
		Help: "Time from a hit to its answer, each hit once. What only policies in shadow refused is allowed."}, []string{"outcome"})
	for _, outcome := range []int{allowed, refused, unchecked, undecided} {
		m.hits[outcome] = hits.WithLabelValues(outcomeNames[outcome])
	}
	m.commitHits = ours.NewHistogram(prometheus.HistogramOpts{Name: "commit_hits", Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		Help: "Hits that one commit decided. Refusals that were answered from memory are counted later, those of a window as one."})
	m.commitSeconds = ours.NewHistogram(prometheus.HistogramOpts{Name: "commit_duration_seconds", Buckets: hitBuckets[2:], Help: "Time that a commit took."})
	m.callsLogged = ours.NewCounter(prometheus.CounterOpts{Name: "calls_logged_total",
		Help: "Rows added to the audit log: hits, those refused alike as one, and changes of limits and policies."})
	m.callsPruned = ours.NewCounter(prometheus.CounterOpts{Name: "calls_pruned_total", Help: "Rows removed from the audit log."})
	m.windowsPruned = ours.NewCounter(prometheus.CounterOpts{Name: "windows_pruned_total", Help: "Windows removed that could no longer matter."})
	m.storeErrors = ours.NewCounterVec(prometheus.CounterOpts{Name: "store_errors_total", Help: "Attempts at the store that failed."}, []string{"operation"})
	for _, operation := range operations {
		m.storeErrors.WithLabelValues(operation)
	}
	m.outages = ours.NewCounter(prometheus.CounterOpts{Name: "store_outages_total", Help: "Times at which the store stopped answering."})
	reloads := ours.NewCounterVec(prometheus.CounterOpts{Name: "reloads_total", Help: "Readings of the policy file, at the start and whenever it changed."}, []string{"outcome"})
	m.reloaded, m.notReloaded = reloads.WithLabelValues("success"), reloads.WithLabelValues("failure")
	m.lastReload = ours.NewGauge(prometheus.GaugeOpts{Name: "last_reload_success",
		Help: "1 if the policies in force are those of the file, 0 if its last change could not be read."})
	m.lastReload.Set(1)
	m.policies = ours.NewGauge(prometheus.GaugeOpts{Name: "policies", Help: "Policies in force."})
	m.revision = ours.NewGauge(prometheus.GaugeOpts{Name: "policies_revision",
		Help: "The revision of the rules in force as a number, which is the same on servers with the same rules."})
	responses := ours.NewCounterVec(prometheus.CounterOpts{Name: "http_responses_total",
		Help: "HTTP answers by path of the API, a page with all its files being one, and by status code; other: nothing of the server took the path and method."},
		[]string{"route", "code"})
	m.responses = newFamily(0, response{}, func(r response) prometheus.Counter {
		return responses.WithLabelValues(r.route, strconv.Itoa(r.code))
	})
	ours.NewGauge(prometheus.GaugeOpts{Name: "build_info", Help: "1, and what program this is.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()}}).Set(1)
	// process_start_time_seconds is not there where /proc/stat is hidden, as by systemd's ProcSubset=pid.
	ours.NewGauge(prometheus.GaugeOpts{Name: "start_time_seconds", Help: "Unix time at which these metrics were made."}).SetToCurrentTime()
	return m
}

// Registry is where the metrics are, to be gathered with others.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler answers in Prometheus' text format, or in OpenMetrics for who asks for it.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Decided counts a hit under each of its policies.
func (m *Metrics) Decided(d domain.Decision, took time.Duration) {
	for i := range d.Policies {
		p := &d.Policies[i]
		outcome := allowed
		switch {
		case d.Unchecked:
			outcome = unchecked
		case p.Refuses && p.Shadow:
			outcome = shadowRefused
		case p.Refuses:
			outcome = refused
		case !d.Allowed:
			outcome = refusedElsewhere
		}
		m.decisions.of(p.Policy)[outcome].Inc()
	}
	outcome := allowed
	switch {
	case d.Unchecked:
		outcome = unchecked
	case !d.Allowed:
		outcome = refused
	}
	m.hits[outcome].Observe(took.Seconds())
}

// Undecided counts a hit without a decision under each of its policies.
func (m *Metrics) Undecided(policies []string, took time.Duration) {
	for _, policy := range policies {
		m.decisions.of(policy)[undecided].Inc()
	}
	m.hits[undecided].Observe(took.Seconds())
}

// Committed counts a commit.
func (m *Metrics) Committed(hits int, took time.Duration) {
	if hits > 0 { // else it was a reset alone
		m.commitHits.Observe(float64(hits))
	}
	m.commitSeconds.Observe(took.Seconds())
}

// Logged counts rows that the audit log was given.
func (m *Metrics) Logged(calls int) { m.callsLogged.Add(float64(calls)) }

// Pruned counts what was removed.
func (m *Metrics) Pruned(windows, calls int) {
	m.windowsPruned.Add(float64(windows))
	m.callsPruned.Add(float64(calls))
}

// StoreFailed counts a failure of the store.
func (m *Metrics) StoreFailed(operation string) { m.storeErrors.WithLabelValues(operation).Inc() }

// StoreDown counts outages.
func (m *Metrics) StoreDown() { m.outages.Inc() }

// Responded counts an HTTP answer by the path of its handler, "" if none was there.
func (m *Metrics) Responded(route string, code int) {
	if route == "" {
		route = "other"
	}
	m.responses.of(response{route, code}).Inc()
}

// Reloaded counts a reading of the policy file, err being why it failed.
func (m *Metrics) Reloaded(err error) {
	if err != nil {
		m.notReloaded.Inc()
		m.lastReload.Set(0)
		return
	}
	m.reloaded.Inc()
	m.lastReload.Set(1)
}

// InForce makes the series of the policies in force, so that they are there before the
// first hit and a rate can be told of it. revision, in hexadecimal digits, names the rules
// that they are from; the first 12 are exported, which a float64 holds exactly.
func (m *Metrics) InForce(revision string, policies []domain.Policy) {
	for i := range policies {
		m.decisions.of(policies[i].Name)
	}
	m.policies.Set(float64(len(policies)))
	number, _ := strconv.ParseUint(revision[:min(len(revision), 12)], 16, 64) // 0 if it is no number
	m.revision.Set(float64(number))
}
