package ratelimitlog_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi/openapitest"
)

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// service is a server that runs in this process.
type service struct {
	url    string // http://127.0.0.1:port
	addr   string
	dsn    string
	config ratelimitlog.Config
	clock  *clock
	log    *buffer
	stop   func() // stops the server and waits; may be called twice
}

// serve runs a server with a new database and a clock that stands still, until the
// test ends. change, if not nil, changes the configuration before.
func serve(t testing.TB, change func(*ratelimitlog.Config)) *service {
	t.Helper()
	return serveOn(t, nil, change)
}

// patience is how long a store or a page may take where time is not what a test is
// about: some machines stand still for seconds.
const patience = 20 * time.Second

// serveOn is serve on stores, if they are not nil.
func serveOn(t testing.TB, stores *ratelimitlog.Stores, change func(*ratelimitlog.Config)) *service {
	t.Helper()
	s := &service{clock: newClock(newYear.Add(10 * time.Second)), log: &buffer{}}
	config := ratelimitlog.Config{
		DSN: "sqlite:" + filepath.Join(t.TempDir(), "test.db"), Limit: "3", Window: "1m",
		LogTo: s.log, LogFormat: "json", Now: s.clock.now, StoreTimeout: patience,
	}
	if change != nil {
		change(&config)
	}
	s.dsn, s.config = config.DSN, config
	newServer := func() (*ratelimitlog.Server, func(), error) {
		if stores != nil {
			return ratelimitlog.NewServerOn(*stores, config)
		}
		return ratelimitlog.NewServer(context.Background(), config)
	}
	server, cleanup, err := newServer()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = listener.Addr().String()
	s.url = "http://" + s.addr
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, listener) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		cleanup()
	})
	t.Cleanup(s.stop)
	return s
}

// clock is a clock that stands still until it is moved.
type clock struct{ nanoseconds atomic.Int64 }

func newClock(t time.Time) *clock {
	c := &clock{}
	c.nanoseconds.Store(t.UnixNano())
	return c
}

func (c *clock) advance(d time.Duration) { c.nanoseconds.Add(int64(d)) }
func (c *clock) now() time.Time          { return time.Unix(0, c.nanoseconds.Load()) }

// buffer collects log lines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   string
}

// request sends a request with headers given as name, value, name, value.
func (s *service) request(t testing.TB, method, target string, headers ...string) answer {
	t.Helper()
	return s.send(t, http.DefaultClient, method, target, "", headers...)
}

// post sends a JSON body.
func (s *service) post(t testing.TB, target, body string, headers ...string) answer {
	t.Helper()
	return s.send(t, http.DefaultClient, "POST", target, body, headers...)
}

// send sends a request with a body and headers given as name, value, name, value.
func (s *service) send(t testing.TB, client *http.Client, method, target, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequest(method, s.url+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(read)}
}

func (s *service) ping(t testing.TB, key string) answer {
	t.Helper()
	return s.request(t, "GET", "/ping", "X-Client-Key", key)
}

// raw sends bytes as they are and reads one response.
func (s *service) raw(t testing.TB, request string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%.60q: %v", request, err)
	}
	witness.Watch(openapitest.ReadRequest(request), response)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

func (a answer) want(t testing.TB, status int, body string) {
	t.Helper()
	if a.status != status || a.body != body {
		t.Errorf("answer %d %s\nwant   %d %s", a.status, a.body, status, body)
	}
}

func (a answer) wantHeader(t testing.TB, name string, values ...string) {
	t.Helper()
	got := a.header.Values(name)
	if len(got) != len(values) {
		t.Errorf("%s: %q, want %q", name, got, values)
		return
	}
	for i := range values {
		if got[i] != values[i] {
			t.Errorf("%s: %q, want %q", name, got, values)
		}
	}
}

func decodeJSON(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

// eventually waits until something is so that the server does by itself.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// replaceFile puts a text in place of a file at once: nobody reads a half of it.
func replaceFile(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}
