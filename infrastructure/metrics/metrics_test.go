package metrics

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// However often policies get new names, the series are bounded, and no hit is lost.
func TestPoliciesBeyondTheBoundAreCountedTogether(t *testing.T) {
	m := New("test", nil)
	const policies = maxPolicies + 500
	var group sync.WaitGroup
	for c := range 8 {
		group.Go(func() {
			for i := range policies {
				if i%2 == c%2 {
					m.Decided(domain.Decision{Allowed: true, Policies: []domain.PolicyDecision{{Policy: fmt.Sprint("p", i)}}}, time.Millisecond)
				} else {
					m.Undecided([]string{fmt.Sprint("p", i)}, time.Millisecond)
				}
			}
		})
	}
	group.Wait()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var series, hits, beyond float64
	for _, family := range families {
		if family.GetName() != "ratelimitlog_decisions_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			series++
			hits += metric.GetCounter().GetValue()
			if metric.GetLabel()[1].GetValue() == others {
				beyond += metric.GetCounter().GetValue()
			}
		}
	}
	if series != outcomes*(maxPolicies+1) || hits != 8*policies || beyond != 8*500 {
		t.Errorf("%v series, %v hits of which %v of others; want %d, %d, %d", series, hits, beyond, outcomes*(maxPolicies+1), 8*policies, 8*500)
	}
}

func TestAHitIsCountedOnceUnderEachPolicy(t *testing.T) {
	m := New("test", nil)
	full, room := domain.Tally{Refuses: true}, domain.Tally{}
	for _, d := range []domain.Decision{
		{Allowed: true, Policies: []domain.PolicyDecision{{Policy: "a", Tally: room}, {Policy: "b", Tally: full, Shadow: true}}},
		{Policies: []domain.PolicyDecision{{Policy: "a", Tally: full}, {Policy: "b", Tally: full, Shadow: true}, {Policy: "c", Tally: room}}},
		{Allowed: true, Unchecked: true, Policies: []domain.PolicyDecision{{Policy: "a"}}},
	} {
		m.Decided(d, 0)
	}
	for policy, want := range map[string][outcomes]float64{
		"a": {allowed: 1, refused: 1, unchecked: 1},
		"b": {shadowRefused: 2},
		"c": {refusedElsewhere: 1},
	} {
		series := m.decisions.of(policy)
		for outcome, want := range want {
			if got := value(t, series[outcome]); got != want {
				t.Errorf("%s %s: %v, want %v", policy, outcomeNames[outcome], got, want)
			}
		}
	}
}

// All 48 bits of a revision are told apart.
func TestARevisionIsANumber(t *testing.T) {
	m := New("test", nil)
	for revision, want := range map[string]float64{
		"000000000001": 1, "00000000000a": 10, "fffffffffffe": 1<<48 - 2, "ffffffffffff": 1<<48 - 1,
		"ffffffffffffabcd": 1<<48 - 1, "": 0, "none": 0,
	} {
		m.InForce(revision, nil)
		if got := exportedGauge(t, m, "ratelimitlog_policies_revision"); got != want {
			t.Errorf("%q: %v, want %v", revision, got, want)
		}
	}
}

func TestTheStartIsTold(t *testing.T) {
	before := time.Now().Unix()
	m := New("test", nil)
	after := time.Now().Unix() + 1
	if got := exportedGauge(t, m, "ratelimitlog_start_time_seconds"); got < float64(before) || got > float64(after) {
		t.Errorf("%f, want from %d to %d", got, before, after)
	}
}

func exportedGauge(t *testing.T, m *Metrics, name string) float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no %s is exported", name)
	return 0
}

func value(t *testing.T, counter prometheus.Counter) float64 {
	t.Helper()
	var written dto.Metric
	if err := counter.Write(&written); err != nil {
		t.Fatal(err)
	}
	return written.GetCounter().GetValue()
}
