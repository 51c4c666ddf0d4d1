package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

type options struct {
	server      string
	rounds      int
	duration    time.Duration
	connections int
	keys        int

	redis, postgres string // DSNs of servers to measure on too; "" leaves them out
	enginesOnly     bool   // on no others
}

// scenario is one server under one kind of load.
type scenario struct {
	name    string
	args    []string // of the ratelimitlog server; nil for a baseline
	role    string   // of this program, for a baseline
	dsn     string   // of the baseline's server
	asked   request
	status  int    // of the answers; where it is 429, a key's first ones are 200
	against string // the bare handler that answers the same bytes, or the ping that is answered alike
}

const (
	bareAllowed = "bare Fiber, bytes of an allowed ping"
	bareRefused = "bare Fiber, bytes of a refused ping"
	howTo       = "how-to pattern"
	pingAllowed = "ping, allowed"
	pingRefused = "ping, refused"
	onePolicy   = "hit, one policy"
)

var scenarios = []scenario{
	{name: bareAllowed, role: "bare-allowed", asked: ping, status: 200, against: bareAllowed},
	{name: bareRefused, role: "bare-refused", asked: ping, status: 429, against: bareRefused},
	{name: pingAllowed, args: []string{"--limit", "999999999", "--window", "1d"}, asked: ping, status: 200, against: bareAllowed},
	{name: pingRefused, args: []string{"--limit", "5", "--window", "1d"}, asked: ping, status: 429, against: bareRefused},
	{name: howTo, role: "howto", asked: ping, status: 200, against: bareAllowed},
}

var withPolicies = []string{"--policies", policyPath}

// hits are scenarios of POST /v1/hits.
var hits = []scenario{
	{name: onePolicy, args: withPolicies, asked: hit("a"), status: 200, against: pingAllowed},
	{name: "hit, two policies", args: withPolicies, asked: hit("a", "b"), status: 200, against: pingAllowed},
	{name: "hit, without a log", args: withPolicies, asked: hit("unlogged"), status: 200, against: pingAllowed},
	{name: "hit, one in ten logged", args: withPolicies, asked: hit("sampled"), status: 200, against: pingAllowed},
	{name: "hit, log tamper-evident", args: append([]string{"--tamper-evident"}, withPolicies...), asked: hit("a"), status: 200, against: pingAllowed},
	{name: "hit, keys hashed", args: append([]string{"--hash-keys", policyPath}, withPolicies...), asked: hit("a"), status: 200, against: pingAllowed}, // any file is a secret
	{name: "hit, sliding", args: withPolicies, asked: hit("sliding"), status: 200, against: pingAllowed},
	{name: "hit, refused by one of two", args: withPolicies, asked: hit("a", "full"), status: 429, against: pingRefused},
	{name: "hit, refused, sliding", args: withPolicies, asked: hit("full-sliding"), status: 429, against: pingRefused},
}

// unmeasured are servers without metrics, against the same with them.
var unmeasured = []scenario{
	{name: "ping, allowed, no metrics", args: append([]string{"--no-metrics"}, scenarios[2].args...), asked: ping, status: 200, against: pingAllowed},
	{name: "ping, refused, no metrics", args: append([]string{"--no-metrics"}, scenarios[3].args...), asked: ping, status: 429, against: pingRefused},
}

// warmUp loads the server for a second. A load knows only that an answer was not
// 2xx: one answer is looked at here, lest errors be measured for refusals.
func (s scenario) warmUp(ctx context.Context, o options, p *process) error {
	if _, err := load(ctx, p.address, s.asked, o, time.Second); err != nil {
		return err
	}
	status, err := s.asked.status(p.address)
	if err == nil && status != s.status {
		err = fmt.Errorf("the answer has status %d, not %d", status, s.status)
	}
	return err
}

func (s scenario) check(r result) error {
	if s.status == 200 && r.refused > 0 {
		return fmt.Errorf("%d answers were not 2xx", r.refused)
	}
	if s.status == 429 && r.refused < r.requests/2 {
		return fmt.Errorf("only %d of %d answers were refusals", r.refused, r.requests)
	}
	return nil
}

// compare measures all scenarios in turn, round after round, and prints the tables.
// The servers run beside each other, the ones that are not asked idle. A ratio is
// the median of the rounds' ratios, not the ratio of medians: machines have fast and
// slow spells, and what is measured seconds apart mostly falls into the same one.
func compare(ctx context.Context, o options) error {
	fmt.Fprintf(os.Stderr, "%s, %d connections, %d keys, %d rounds of %s, %s, %d cores\n",
		loaderName(), o.connections, o.keys, o.rounds, o.duration, runtime.Version(), runtime.NumCPU())
	if o.postgres != "" {
		removeSchema, err := prepareSchema(o.postgres, benchSchema)
		if err != nil {
			return err
		}
		defer removeSchema()
	}
	if o.redis != "" {
		defer cleanRedis(o.redis)
	}
	engines := engines(o)
	scenarios, unmeasured, hits := scenarios, unmeasured, hits
	if o.enginesOnly {
		scenarios, unmeasured, hits = nil, nil, nil
	}
	all := slices.Concat(scenarios, unmeasured, hits, engines)
	processes := map[string]*process{}
	for _, s := range all {
		p, err := start(ctx, o, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		defer p.stop()
		if err := s.warmUp(ctx, o, p); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		processes[s.name] = p
	}
	results := map[string][]result{}
	for round := range o.rounds {
		for _, s := range all {
			r, err := measure(ctx, o, s, processes[s.name])
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			fmt.Fprintf(os.Stderr, "round %d  %-37s %7.0f/s  p50 %s  p99 %s  %d MiB\n",
				round+1, s.name, r.perSecond, r.p50, r.p99, r.peakMemory>>20)
			results[s.name] = append(results[s.name], r)
		}
	}
	printTable(scenarios, results, "scenario", column{"of bare, same bytes", ""}, column{"of bare, allowed bytes", bareAllowed}, column{"of how-to", howTo})
	printTable(unmeasured, results, "metrics", column{"of the same with metrics", ""})
	printTable(hits, results, "hit", column{"of one policy", onePolicy}, column{"of ping, same outcome", ""})
	printTable(engines, results, "engine", column{"of the usual way", ""})
	if len(engines) == 0 {
		fmt.Fprintln(os.Stderr, "not measured: -redis and -postgres name no servers")
	}
	return nil
}

// column is a ratio to one scenario, or to the one that each is against.
type column struct{ title, to string }

func printTable(scenarios []scenario, results map[string][]result, title string, columns ...column) {
	if len(scenarios) == 0 {
		return
	}
	fmt.Printf("\n| %s | requests/s |", title)
	for _, c := range columns {
		fmt.Printf(" %s |", c.title)
	}
	fmt.Printf(" p50 | p99 | peak memory |\n|---|---:|%s---:|---:|---:|\n", strings.Repeat("---:|", len(columns)))
	for _, s := range scenarios {
		m := median(results[s.name])
		fmt.Printf("| %s | %.0f |", s.name, m.perSecond)
		for _, c := range columns {
			fmt.Printf(" %.2f |", ratio(results[s.name], results[cmp.Or(c.to, s.against)]))
		}
		fmt.Printf(" %s | %s | %d MiB |\n", m.p50, m.p99, m.peakMemory>>20)
	}
}

// ratio is the median of the ratios of throughput, round by round.
func ratio(of, to []result) float64 {
	ratios := make([]float64, len(of))
	for i := range of {
		ratios[i] = of[i].perSecond / to[i].perSecond
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// median takes each figure's median by itself.
func median(results []result) result {
	return result{
		perSecond:  middle(results, func(r result) float64 { return r.perSecond }),
		p50:        middle(results, func(r result) time.Duration { return r.p50 }),
		p99:        middle(results, func(r result) time.Duration { return r.p99 }),
		peakMemory: middle(results, func(r result) int64 { return r.peakMemory }),
	}
}

func middle[T int64 | float64 | time.Duration](results []result, of func(result) T) T {
	values := make([]T, len(results))
	for i, r := range results {
		values[i] = of(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func measure(ctx context.Context, o options, s scenario, p *process) (result, error) {
	r, err := load(ctx, p.address, s.asked, o, o.duration)
	if err != nil {
		return result{}, err
	}
	if r.peakMemory, err = p.memory("VmHWM"); err != nil {
		return result{}, err
	}
	return r, s.check(r)
}
