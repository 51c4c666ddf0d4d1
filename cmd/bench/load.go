package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// result is what one measurement came to.
type result struct {
	perSecond  float64
	requests   int64
	refused    int64 // answers that were not 2xx
	p50, p99   time.Duration
	peakMemory int64
}

func loaderName() string {
	if path, err := exec.LookPath("wrk"); err == nil {
		return path
	}
	return "built-in load"
}

// load asks in a closed loop for a while.
func load(ctx context.Context, address string, asked request, o options, duration time.Duration) (result, error) {
	if _, err := exec.LookPath("wrk"); err != nil {
		return loadBuiltIn(ctx, address, asked, o, duration)
	}
	script, err := os.CreateTemp("", "requests-*.lua")
	if err != nil {
		return result{}, err
	}
	defer os.Remove(script.Name())
	if _, err := script.WriteString(requestsScript); err != nil {
		return result{}, err
	}
	if err := script.Close(); err != nil {
		return result{}, err
	}
	out, err := exec.CommandContext(ctx, "wrk", "--latency", "-t", "2", "-c", strconv.Itoa(o.connections),
		"-d", fmt.Sprintf("%ds", int(duration.Seconds())), "-s", script.Name(),
		"http://"+address, "--", strconv.Itoa(o.keys), asked.method, asked.path, asked.body).CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	return parseWrk(string(out))
}

// requestsScript makes every request once and sends them in turn.
//
//go:embed requests.lua
var requestsScript string

var (
	wrkRate     = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkRequests = regexp.MustCompile(`(\d+) requests in`)
	wrkRefused  = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	wrkErrors   = regexp.MustCompile(`Socket errors: .*`)
)

func parseWrk(out string) (r result, err error) {
	if errs := wrkErrors.FindString(out); errs != "" {
		return r, fmt.Errorf("wrk: %s", errs)
	}
	rate, requests := wrkRate.FindStringSubmatch(out), wrkRequests.FindStringSubmatch(out)
	if rate == nil || requests == nil {
		return r, fmt.Errorf("wrk printed no rate: %s", out)
	}
	if r.perSecond, err = strconv.ParseFloat(rate[1], 64); err != nil {
		return r, err
	}
	if r.requests, err = strconv.ParseInt(requests[1], 10, 64); err != nil {
		return r, err
	}
	if refused := wrkRefused.FindStringSubmatch(out); refused != nil {
		if r.refused, err = strconv.ParseInt(refused[1], 10, 64); err != nil {
			return r, err
		}
	}
	if r.p50, err = wrkPercentile(out, "50%"); err != nil {
		return r, err
	}
	r.p99, err = wrkPercentile(out, "99%")
	return r, err
}

func wrkPercentile(out, percentile string) (time.Duration, error) {
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == percentile {
			return time.ParseDuration(fields[1])
		}
	}
	return 0, fmt.Errorf("wrk printed no %s: %s", percentile, out)
}
