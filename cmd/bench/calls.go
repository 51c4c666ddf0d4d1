package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/mattn/go-sqlite3"
)

// auditToken opens the log of the servers that are measured.
const auditToken = "bench-audit-token"

// bigLog is a server on a log of many calls, and one on an empty log.
type bigLog struct {
	options
	calls      int
	big, empty *process
	file       string // the database of the first, "" on PostgreSQL
	db         *sql.DB
	now        time.Time
	after      []func() // removes what was made
}

// measureCalls fills a log with so many calls of the last 24 hours, on SQLite or, if one
// is named, on PostgreSQL, and measures what reads it and what is written beside.
func measureCalls(ctx context.Context, o options, calls int) error {
	b := &bigLog{options: o, calls: calls}
	defer b.stop()
	if err := b.start(ctx); err != nil {
		return err
	}
	if err := b.queries(ctx); err != nil {
		return err
	}
	if err := b.hits(ctx); err != nil {
		return err
	}
	return b.export(ctx)
}

// fillFile leaves a log of so many calls of the last 24 hours in a new SQLite file.
func fillFile(ctx context.Context, o options, calls int, file string) error {
	if _, err := os.Stat(file); err == nil {
		return fmt.Errorf("%s is there already", file)
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	o.postgres = ""
	b := &bigLog{options: o, calls: calls, file: file}
	defer b.stop()
	return b.start(ctx)
}

func (b *bigLog) stop() {
	for _, p := range []*process{b.big, b.empty} {
		if p != nil {
			p.stop()
		}
	}
	if b.db != nil {
		b.db.Close()
	}
	for _, f := range b.after {
		f()
	}
}

func (b *bigLog) start(ctx context.Context) error {
	args := []string{"--limit", "999999999", "--window", "1d", "--audit-token", auditToken}
	empty, driver, fill := args, "sqlite3", fillSQLite
	if b.postgres != "" {
		inSchema := func(schema string) []string {
			return append(slices.Clone(args), "--migrate", "--dsn", withParameter(b.postgres, "search_path", schema))
		}
		for _, schema := range []string{benchSchema, benchSchema + "_empty"} {
			remove, err := prepareSchema(b.postgres, schema)
			if err != nil {
				return err
			}
			b.after = append(b.after, remove)
		}
		driver, fill = "pgx", fillPostgres
		args, empty = inSchema(benchSchema), inSchema(benchSchema+"_empty")
	} else {
		if b.file == "" {
			dir, err := os.MkdirTemp("", "ratelimitlog-bench-calls-")
			if err != nil {
				return err
			}
			b.after = append(b.after, func() { os.RemoveAll(dir) })
			b.file = filepath.Join(dir, "big.db")
		}
		args = append(slices.Clone(args), "--dsn", "sqlite:"+b.file)
	}
	var err error
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"make the tables", func() error {
			p, err := start(ctx, b.options, scenario{args: args})
			if err == nil {
				p.stop()
			}
			return err
		}},
		{"open the database", func() (err error) {
			b.db, err = sql.Open(driver, "file:"+b.file+"?_busy_timeout=60000")
			if b.postgres != "" {
				b.db, err = sql.Open(driver, args[len(args)-1])
			}
			return err
		}},
		{fmt.Sprintf("write %d calls", b.calls), func() error { _, err := b.db.ExecContext(ctx, fill, b.calls); return err }},
		{"start the servers", func() error {
			if b.big, err = start(ctx, b.options, scenario{args: args}); err != nil {
				return err
			}
			b.empty, err = start(ctx, b.options, scenario{args: empty})
			return err
		}},
		{"wait for blocks", func() error { return b.blocks(ctx) }},
	} {
		begun := time.Now()
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", step.what, time.Since(begun).Round(time.Millisecond))
	}
	b.now = time.Now()
	return nil
}

// The calls of 1000 keys under two policies, every third refused, at even distances.
const (
	fillSQLite = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < ?1)
INSERT INTO api_calls (called_at, kind, policy, key, cost, hits, allowed, shadow, count, refused, "limit", window_start, method, path, request_id, schedule)
SELECT strftime('%Y-%m-%dT%H:%M:%fZ', unixepoch() - 86400 + i * 86400.0 / ?1, 'unixepoch'), 'hit', CASE i % 2 WHEN 0 THEN 'default' ELSE 'daily' END,
'key-' || (i * 7919 % 1000), 1, 1, i % 3 <> 0, 0, 1, i % 3 = 0, 60, strftime('%Y-%m-%dT%H:%M:00Z', unixepoch() - 86400 + i * 86400 / ?1, 'unixepoch'), 'GET', '/ping', printf('%016x%016x', i * 7919, i), 'fixed 1m' FROM n`
	fillPostgres = `INSERT INTO api_calls (called_at, kind, policy, key, cost, hits, allowed, shadow, count, refused, "limit", window_start, method, path, request_id, schedule)
SELECT date_trunc('milliseconds', now() - interval '1 day' + i * interval '1 day' / $1), 'hit', CASE i % 2 WHEN 0 THEN 'default' ELSE 'daily' END,
'key-' || (i::bigint * 7919 % 1000), 1, 1, i % 3 <> 0, false, 1, CASE i % 3 WHEN 0 THEN 1 ELSE 0 END, 60, date_trunc('minute', now() - interval '1 day' + i * interval '1 day' / $1), 'GET', '/ping', md5(i::text), 'fixed 1m' FROM generate_series(1, $1::int) AS n(i)`
)

// blocks waits until all full blocks of 16384 calls are there: a server begins when it
// first logs something.
func (b *bigLog) blocks(ctx context.Context) error {
	for {
		if _, err := ping.status(b.big.address); err != nil {
			return err
		}
		var there, due int64
		if err := b.db.QueryRowContext(ctx, `SELECT coalesce(max(block), -1), (SELECT (max(id) + 1) / 16384 - 1 FROM api_calls) FROM api_call_blocks`).Scan(&there, &due); err != nil {
			return err
		}
		if there >= due {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// get asks the server with the log and reads the answer as JSON, if into is not nil.
func (b *bigLog) get(ctx context.Context, target string, into any) (time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.big.address+target, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+auditToken)
	begun := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	took := time.Since(begun)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", target, response.StatusCode, body)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(body, into)
	}
	return took, err
}

// queries measures single answers, each for other keys.
func (b *bigLog) queries(ctx context.Context) error {
	at := func(ago time.Duration) string { return url.QueryEscape(b.now.Add(-ago).Format(time.RFC3339)) }
	hourAgo := "&from=" + at(13*time.Hour) + "&to=" + at(12*time.Hour)
	fmt.Printf("\n| answer of 100 calls, or usage | p50 | p95 | page 1000: p50 | p95 |\n|---|---:|---:|---:|---:|\n")
	for _, q := range []struct{ name, target string }{
		{"calls by key", "/v1/calls?key=key-%d"},
		{"calls by key, an hour of yesterday", "/v1/calls?key=key-%d" + hourAgo},
		{"calls by key, refused", "/v1/calls?key=key-%d&allowed=false"},
		{"calls refused in the last hour", "/v1/calls?allowed=false&from=" + at(time.Hour)},
		{"calls refused in the last hour, oldest first", "/v1/calls?order=asc&allowed=false&from=" + at(time.Hour)},
		{"calls of an hour of yesterday", "/v1/calls?x" + hourAgo},
		{"all calls", "/v1/calls?x"},
		{"usage of a key by hour over a day", "/v1/usage?by=hour&key=key-%d"},
		{"usage of a key by day, in Asia/Tokyo", "/v1/usage?by=day&zone=Asia/Tokyo&key=key-%d"},
		{"usage by key over a day", "/v1/usage?by=key"},
		{"usage by policy over a day", "/v1/usage?by=policy"},
	} {
		target := strings.ReplaceAll(strings.ReplaceAll(q.target, "?x&", "?"), "?x", "?limit=100")
		first, err := b.percentiles(ctx, target, "")
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %s |", q.name, first)
		deep := " - | - |"
		if strings.HasPrefix(q.target, "/v1/calls") {
			if deep, err = b.page1000(ctx, target); err != nil {
				return err
			}
		}
		fmt.Println(deep)
	}
	return nil
}

const repeats = 100

func (b *bigLog) percentiles(ctx context.Context, target, cursor string) (string, error) {
	var all []time.Duration
	for i := range repeats {
		t := strings.ReplaceAll(target, "%d", fmt.Sprint(i*13%1000))
		if cursor != "" {
			t = strings.ReplaceAll(target, "%d", "13") + "&cursor=" + cursor
		}
		took, err := b.get(ctx, t, nil)
		if err != nil {
			return "", err
		}
		all = append(all, took)
	}
	slices.Sort(all)
	return fmt.Sprintf("%s | %s", all[repeats/2].Round(10*time.Microsecond), all[repeats*95/100].Round(10*time.Microsecond)), nil
}

// page1000 measures the page that begins behind 99 900 calls, or the last one there is.
func (b *bigLog) page1000(ctx context.Context, target string) (string, error) {
	one := strings.ReplaceAll(target, "%d", "13")
	cursor, pages := "", 0
	for pages < 999 {
		step := min(999-pages, 10) // as large as pages get
		t := strings.ReplaceAll(one, "limit=100", "x") + fmt.Sprintf("&limit=%d", step*100)
		if cursor != "" {
			t += "&cursor=" + cursor
		}
		var page struct{ Next string }
		if _, err := b.get(ctx, strings.ReplaceAll(t, "?x&", "?"), &page); err != nil {
			return "", err
		}
		if page.Next == "" {
			break
		}
		cursor, pages = page.Next, pages+step
	}
	if cursor == "" {
		return " - | - |", nil
	}
	text, err := b.percentiles(ctx, target, cursor)
	if pages < 999 {
		return fmt.Sprintf(" %s (page %d) |", text, pages+1), err
	}
	return " " + text + " |", err
}

// hits compares hits on the full log with hits on an empty one, round after round.
func (b *bigLog) hits(ctx context.Context) error {
	var big, empty []result
	for range b.rounds {
		for _, side := range []struct {
			p       *process
			results *[]result
		}{{b.empty, &empty}, {b.big, &big}} {
			r, err := load(ctx, side.p.address, ping, b.options, b.duration)
			if err != nil {
				return err
			}
			*side.results = append(*side.results, r)
		}
	}
	fmt.Printf("\nhits on %d calls: %.0f/s, on an empty log %.0f/s, ratio %.2f; p99 %s and %s\n", b.calls, median(big).perSecond, median(empty).perSecond, ratio(big, empty), median(big).p99, median(empty).p99)
	return nil
}

// export reads the whole log as one answer, while hits go on.
func (b *bigLog) export(ctx context.Context) error {
	before, err := b.big.memory("VmRSS")
	if err != nil {
		return err
	}
	exporting, done := context.WithCancel(ctx)
	defer done()
	type outcome struct {
		lines int
		took  time.Duration
		err   error
	}
	ended := make(chan outcome, 1)
	go func() {
		begun := time.Now()
		lines, err := b.readAll(ctx)
		ended <- outcome{lines, time.Since(begun), err}
		done()
	}()
	var most, wal int64
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for exporting.Err() == nil {
			if resident, err := b.big.memory("VmRSS"); err == nil {
				most = max(most, resident)
			}
			if info, err := os.Stat(b.file + "-wal"); err == nil {
				wal = max(wal, info.Size())
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	o := b.options
	o.connections = 16
	var rates []float64
	for exporting.Err() == nil {
		r, err := load(ctx, b.big.address, ping, o, 2*time.Second)
		if err != nil {
			return err
		}
		rates = append(rates, r.perSecond)
	}
	<-watched
	result := <-ended
	if result.err != nil {
		return fmt.Errorf("export: %w", result.err)
	}
	slices.Sort(rates)
	fmt.Printf("export beside hits of 16 connections (%.0f/s): %d calls in %s; resident memory %d MiB before, at most %d; write-ahead log at most %d MiB\n",
		rates[len(rates)/2], result.lines, result.took.Round(time.Second), before>>20, most>>20, wal>>20)
	return nil
}

// readAll reads the log and counts its lines.
func (b *bigLog) readAll(ctx context.Context) (lines int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.big.address+"/v1/calls?order=asc", nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+auditToken)
	request.Header.Set("Accept", "application/x-ndjson")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	scanner := bufio.NewScanner(response.Body)
	for scanner.Scan() {
		lines++
	}
	return lines, scanner.Err()
}
