package main

import (
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
	only        string
}

// scenario is one server under one kind of load.
type scenario struct {
	name  string
	args  []string // of the ratelimitlog server; nil for a baseline
	role  string   // of this program, for a baseline
	valid func(result) error
}

var scenarios = []scenario{
	{name: "bare Fiber handler", role: "bare", valid: allAllowed},
	{name: "ping allowed", args: []string{"--limit", "999999999", "--window", "1d"}, valid: allAllowed},
	{name: "ping refused", args: []string{"--limit", "5", "--window", "1d"}, valid: mostRefused},
	{name: "how-to pattern", role: "howto", valid: allAllowed},
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
func compare(ctx context.Context, o options) error {
	fmt.Fprintf(os.Stderr, "%s, %d connections, %d keys, %d rounds of %s, %s, %d cores\n",
		loaderName(), o.connections, o.keys, o.rounds, o.duration, runtime.Version(), runtime.NumCPU())
	results := make([][]result, len(scenarios))
	for round := range o.rounds {
		for i, s := range scenarios {
			if i > 0 && !strings.HasPrefix(s.name, o.only) {
				continue
			}
			r, err := measure(ctx, o, s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			fmt.Fprintf(os.Stderr, "round %d  %-18s  %8.0f/s  p50 %s  p99 %s  %d MiB\n",
				round+1, s.name, r.perSecond, r.p50, r.p99, r.peakMemory>>20)
			results[i] = append(results[i], r)
		}
	}
	fmt.Println("| scenario | requests/s | of bare | of how-to | p50 | p99 | peak memory |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|")
	bare, howto := median(results[0]), median(results[3])
	for i, s := range scenarios {
		if len(results[i]) == 0 {
			continue
		}
		m := median(results[i])
		fmt.Printf("| %s | %.0f | %.2f | %s | %s | %s | %d MiB |\n", s.name, m.perSecond,
			m.perSecond/bare.perSecond, ratio(m.perSecond, howto.perSecond), m.p50, m.p99, m.peakMemory>>20)
	}
	return nil
}

func ratio(a, b float64) string {
	if b == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", a/b)
}

// median takes each figure's median by itself.
func median(results []result) result {
	if len(results) == 0 {
		return result{}
	}
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

func measure(ctx context.Context, o options, s scenario) (result, error) {
	p, err := start(ctx, o, s)
	if err != nil {
		return result{}, err
	}
	defer p.stop()
	if _, err := load(ctx, p.address, o, time.Second); err != nil { // warm up
		return result{}, err
	}
	r, err := load(ctx, p.address, o, o.duration)
	if err != nil {
		return result{}, err
	}
	if r.peakMemory, err = p.memory("VmHWM"); err != nil {
		return result{}, err
	}
	return r, s.valid(r)
}
