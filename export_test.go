package ratelimitlog_test

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi/openapitest"
)

// streamed reads an answer of any length.
func (s *service) streamed(t testing.TB, accept, query string) (calls []loggedCall) {
	t.Helper()
	a := s.request(t, "GET", "/v1/calls?"+query, append(bearer(auditToken), "Accept", accept)...)
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), accept) || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Fatalf("%s: %d %v %.300s", query, a.status, a.header, a.body)
	}
	if accept == "text/csv" {
		return callsOfCSV(t, a.body)
	}
	for decoder := json.NewDecoder(strings.NewReader(a.body)); ; {
		var call loggedCall
		if err := decoder.Decode(&call); err == io.EOF {
			return calls
		} else if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, call)
	}
}

// guard is what keeps spreadsheets from seeing a formula.
var guard = regexp.MustCompile(`(^|[;\t\r\n])'`)

func callsOfCSV(t testing.TB, text string) (calls []loggedCall) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		for i, cell := range row {
			row[i] = guard.ReplaceAllString(cell, "$1")
		}
		number := func(i int) int64 { n, _ := strconv.ParseInt(row[i], 10, 64); return n }
		call := loggedCall{
			ID: number(0), CalledAt: row[1], Kind: row[2], Policy: row[3], Key: row[4], Cost: number(5), Hits: number(6), Allowed: row[7] == "true", Shadow: row[8] == "true",
			Count: number(9), Refused: number(10), WindowStart: row[12], Schedule: row[13], Coverage: row[14], Method: row[15], Path: row[16], RequestID: row[17], Actor: row[18],
		}
		switch row[11] {
		case "":
		case "unlimited":
			call.Limit = row[11]
		default:
			call.Limit = float64(number(11))
		}
		calls = append(calls, call)
	}
	return calls
}

func TestStreamsReadBackAsThePagesDo(t *testing.T) {
	forEachEngine(t, func(t *testing.T, configure func(*ratelimitlog.Config)) {
		s := serve(t, func(c *ratelimitlog.Config) { configure(c); withTokens(c); c.Limit = "2" })
		s.rulesInLog(t) // nothing is added while it is read
		for _, key := range []string{"k", "=1+1", "a,b", `"q"`, "'", "@x", "-1", "é"} {
			for range 3 {
				s.do(t, "POST", "/v1/hits", fmt.Sprintf(`{"key":%q,"policies":["default"]}`, key))
			}
		}
		s.do(t, "PUT", "/v1/quotas?policy=default&key=k", `{"limit":"unlimited"}`)
		s.do(t, "DELETE", "/v1/counters?key=k", "")
		for _, query := range []string{"", "order=asc", "key=k", "allowed=false", "kind=reset,quota_set", "key=nobody"} {
			want := s.allCalls(t, query, 1000)
			if len(want) == 0 && query != "key=nobody" {
				t.Fatalf("%s shows nothing", query)
			}
			for _, accept := range []string{"application/x-ndjson", "text/csv"} {
				if got := s.streamed(t, accept, query); !slices.Equal(got, want) {
					t.Errorf("%s as %s: %d calls that are not the %d of the pages", query, accept, len(got), len(want))
				}
				if got := s.streamed(t, accept, query+"&limit=2"); !slices.Equal(got, want[:min(2, len(want))]) {
					t.Errorf("two of %s as %s: %d calls", query, accept, len(got))
				}
			}
		}
		for _, query := range []string{"cursor=ZDE", "limit=0", "limit=-1", "limit=x"} {
			if a := s.request(t, "GET", "/v1/calls?"+query, append(bearer(auditToken), "Accept", "text/csv")...); a.status != 422 {
				t.Errorf("%s: %d %s", query, a.status, a.body)
			}
		}
		a := s.request(t, "GET", "/v1/calls", append(bearer(auditToken), "Accept", "text/html")...)
		a.want(t, 406, `{"type":"about:blank","title":"Not Acceptable","status":406,"detail":"Calls can be had as application/json, application/x-ndjson and text/csv.","instance":"/v1/calls"}`)
	})
}

// fillLog logs n calls in a new file.
func fillLog(t testing.TB, dsn string, n int) {
	t.Helper()
	store, err := gormstore.Open(t.Context(), dsn, gormstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	calls := make([]domain.Call, 5000)
	for i := range calls {
		calls[i] = domain.Call{
			Kind: domain.CallHit, At: newYear, Policy: "default", Key: fmt.Sprint("k", i), Cost: 1, Hits: 1, Allowed: true, Count: 1, Limit: 3, WindowStart: newYear,
			Schedule: "fixed 1m", Origin: domain.Origin{Method: "GET", Path: "/ping", RequestID: "00112233445566778899aabbccddeeff"},
		}
	}
	for ; n > 0; n -= len(calls) {
		if err := store.Append(t.Context(), calls[:min(n, len(calls))]); err != nil {
			t.Fatal(err)
		}
	}
}

// However long the log and however slow its reader, the server holds a page of it, and
// hits go on.
func TestALongStreamHoldsNeitherMemoryNorHits(t *testing.T) {
	const calls = 200_000
	s := serve(t, func(c *ratelimitlog.Config) { withAudit(c); fillLog(t, c.DSN, calls) })
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := http.NewRequest("GET", s.url+"/v1/calls?order=asc", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+auditToken)
	r.Header.Set("Accept", "application/x-ndjson")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for i := range 200 { // nobody reads
		if a := s.ping(t, fmt.Sprint("other", i%10)); a.status != 200 {
			t.Fatalf("a hit beside it: %d %s", a.status, a.body)
		}
	}
	lines, peak := 0, uint64(0)
	for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
		if lines++; lines%1000 == 0 {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapInuse)
		}
	}
	if lines != calls {
		t.Errorf("%d calls, want the %d that were there", lines, calls)
	}
	if grown := int64(peak) - int64(before.HeapInuse); grown > 64<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	} else {
		t.Logf("the heap has grown by %d MiB", grown>>20)
	}
}

// A client that takes nothing holds up no hit and no checkpoint, and a log that fails
// in the midst of it ends the answer without its end.
func TestAStreamThatBreaksDoesNotLookWhole(t *testing.T) {
	s := serve(t, func(c *ratelimitlog.Config) { withAudit(c); fillLog(t, c.DSN, 60_000) })
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.(*net.TCPConn).SetReadBuffer(1 << 16)
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	sent := fmt.Sprintf("GET /v1/calls HTTP/1.1\r\nHost: x\r\nAccept: text/csv\r\nAuthorization: Bearer %s\r\n\r\n", auditToken)
	io.WriteString(conn, sent)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != 200 {
		t.Fatal(response, err)
	}
	witness.Watch(openapitest.ReadRequest(sent), response)
	mustExec(t, s.dsn, `ALTER TABLE api_calls RENAME TO elsewhere`)
	body, err := io.ReadAll(response.Body)
	if lines := strings.Count(string(body), "\n"); err == nil || lines == 0 || lines > 60_000 {
		t.Errorf("%d lines, %v", lines, err)
	}
	if log := s.log.String(); !strings.Contains(log, "an export was cut off") || !strings.Contains(log, "no such table") {
		t.Errorf("log: %s", log)
	}
}

// While some go away in the midst of a stream, others find a place for theirs.
func TestStreamsThatAreLeftFreeTheirPlace(t *testing.T) {
	s := serve(t, func(c *ratelimitlog.Config) { withAudit(c); fillLog(t, c.DSN, 60_000) })
	refused := 0
	for range 20 {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/calls", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+auditToken)
		r.Header.Set("Accept", "text/csv")
		for {
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close() // which closes the connection
			if response.StatusCode == 200 {
				break
			}
			if refused++; refused > 1000 {
				t.Fatal("no place becomes free")
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}
