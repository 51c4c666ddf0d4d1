package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
)

type options struct {
	server      string
	rounds      int
	duration    time.Duration
	connections int
	keys        int
}

// scenario is one server under one kind of load.
type scenario struct {
	name    string
	args    []string // of the ratelimitlog server; nil for a baseline
	role    string   // of this program, for a baseline
	against string   // the bare handler that answers the same bytes
	valid   func(result) error
}

const (
	bareAllowed = "bare Fiber, bytes of an allowed ping"
	bareRefused = "bare Fiber, bytes of a refused ping"
	howTo       = "how-to pattern"
)

var scenarios = []scenario{
	{name: bareAllowed, role: "bare-allowed", against: bareAllowed, valid: allAllowed},
	{name: bareRefused, role: "bare-refused", against: bareRefused, valid: mostRefused},
	{name: "ping, allowed", args: []string{"--limit", "999999999", "--window", "1d"}, against: bareAllowed, valid: allAllowed},
	{name: "ping, refused", args: []string{"--limit", "5", "--window", "1d"}, against: bareRefused, valid: mostRefused},
	{name: howTo, role: "howto", against: bareAllowed, valid: allAllowed},
}

func allAllowed(r result) error {
	if r.refused > 0 {
		return fmt.Errorf("%d answers were not 2xx", r.refused)
	}
	return nil
}

func mostRefused(r result) error {
	if r.refused < r.requests/2 {
		return fmt.Errorf("only %d of %d answers were refusals", r.refused, r.requests)
	}
	return nil
}

// compare measures all scenarios in turn, round after round, and prints a table.
// The servers run beside each other, the ones that are not asked idle. A ratio is
// the median of the rounds' ratios, not the ratio of medians: machines have fast and
// slow spells, and what is measured seconds apart mostly falls into the same one.
func compare(ctx context.Context, o options) error {
	fmt.Fprintf(os.Stderr, "%s, %d connections, %d keys, %d rounds of %s, %s, %d cores\n",
		loaderName(), o.connections, o.keys, o.rounds, o.duration, runtime.Version(), runtime.NumCPU())
	processes := map[string]*process{}
	for _, s := range scenarios {
		p, err := start(ctx, o, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		defer p.stop()
		if _, err := load(ctx, p.address, o, time.Second); err != nil { // warm up
			return fmt.Errorf("%s: %w", s.name, err)
		}
		processes[s.name] = p
	}
	results := map[string][]result{}
	for round := range o.rounds {
		for _, s := range scenarios {
			r, err := measure(ctx, o, s, processes[s.name])
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			fmt.Fprintf(os.Stderr, "round %d  %-37s %7.0f/s  p50 %s  p99 %s  %d MiB\n",
				round+1, s.name, r.perSecond, r.p50, r.p99, r.peakMemory>>20)
			results[s.name] = append(results[s.name], r)
		}
	}
	fmt.Println("| scenario | requests/s | of bare, same bytes | of bare, allowed bytes | of how-to | p50 | p99 | peak memory |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|---:|")
	for _, s := range scenarios {
		m := median(results[s.name])
		of := func(name string) float64 { return ratio(results[s.name], results[name]) }
		fmt.Printf("| %s | %.0f | %.2f | %.2f | %.1f | %s | %s | %d MiB |\n", s.name, m.perSecond,
			of(s.against), of(bareAllowed), of(howTo), m.p50, m.p99, m.peakMemory>>20)
	}
	return nil
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
	r, err := load(ctx, p.address, o, o.duration)
	if err != nil {
		return result{}, err
	}
	if r.peakMemory, err = p.memory("VmHWM"); err != nil {
		return result{}, err
	}
	return r, s.valid(r)
}
