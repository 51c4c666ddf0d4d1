package ratelimitlog_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

// fallible is a server of the test's own.
type fallible interface {
	DSN() string
	Start()
	Kill()
	Hang()
	Resume()
}

// fallibles are the engines that can be away, by name.
var fallibles = map[string]func(testing.TB) fallible{
	"PostgreSQL": func(t testing.TB) fallible { return servicetest.NewPostgresServer(t) },
	"Redis":      func(t testing.TB) fallible { return servicetest.NewRedisServer(t) },
}

const openAndClosed = `policies:
  closed: {limit: 1000000, window: 1h}
  open: {limit: 1000000, window: 1h, on_store_error: open}
`

// watcher hits a server all the time and remembers what it saw.
type watcher struct {
	mu    sync.Mutex
	seen  []seen
	group sync.WaitGroup
	stop  context.CancelFunc
}

type seen struct {
	policy    string
	begun     time.Time
	took      time.Duration
	status    int
	unchecked bool
}

func watch(t *testing.T, s *service, clients int) *watcher {
	ctx, stop := context.WithCancel(context.Background())
	w := &watcher{stop: stop}
	client := clientOf(&http.Transport{MaxIdleConnsPerHost: clients})
	client.Timeout = 20 * time.Second
	t.Cleanup(client.CloseIdleConnections)
	for c := range clients {
		policy := []string{"open", "closed"}[c%2]
		w.group.Go(func() {
			for ctx.Err() == nil {
				begun := time.Now()
				response, err := client.Post(s.url+"/v1/hits", "application/json", strings.NewReader(fmt.Sprintf(`{"key":"k%d","policies":["%s"]}`, c, policy)))
				if err != nil {
					t.Errorf("%s: %v", policy, err)
					return
				}
				response.Body.Close()
				w.mu.Lock()
				w.seen = append(w.seen, seen{policy, begun, time.Since(begun), response.StatusCode, response.Header.Get("X-RateLimit-Unchecked") != ""})
				w.mu.Unlock()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	return w
}

// during is what began between two times.
func (w *watcher) during(from, to time.Time) (found []seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.seen {
		if s.begun.After(from) && s.begun.Before(to) {
			found = append(found, s)
		}
	}
	return found
}

// Whatever becomes of the store, requests are answered in time by the mode of their
// policy, and decided again once it is back.
func TestAnOutageOfTheStore(t *testing.T) { // cases 118, 119, 121, 122, 124
	for name, newServer := range fallibles {
		t.Run(name, func(t *testing.T) {
			store := newServer(t)
			s := servePoliciesWith(t, openAndClosed, func(c *ratelimitlog.Config) { // the store is down at the start
				c.DSN, c.AuditDSN, c.Migrate, c.Now = store.DSN(), "sqlite:"+filepath.Join(t.TempDir(), "audit.db"), true, time.Now
			})
			ready := func(want int) time.Duration {
				t.Helper()
				begun := time.Now()
				for s.request(t, "GET", "/readyz").status != want {
					if time.Since(begun) > 30*time.Second {
						t.Fatalf("/readyz is never %d\n%s", want, s.log)
					}
					time.Sleep(10 * time.Millisecond)
				}
				return time.Since(begun)
			}
			ready(503)
			goroutines := 0
			w := watch(t, s, 8)
			for i, phase := range []struct {
				name          string
				fails, mended func()
			}{
				{"down at the start", func() {}, store.Start},
				{"killed", store.Kill, store.Start},
				{"hanging", store.Hang, store.Resume},
			} {
				phase.fails()
				ready(503)
				from := time.Now()
				time.Sleep(time.Second) // of an outage that clients see
				to := time.Now()
				longest := time.Duration(0)
				for _, seen := range w.during(from, to.Add(-100*time.Millisecond)) {
					longest = max(longest, seen.took)
					if want := map[string]int{"open": 200, "closed": 503}[seen.policy]; seen.status != want || seen.unchecked != (seen.policy == "open") {
						t.Fatalf("%s: %+v", phase.name, seen)
					}
				}
				phase.mended()
				begun := time.Now()
				ready(200)
				back := time.Now()
				for { // decided again
					recent := w.during(back, time.Now())
					if len(recent) > 20 && recent[len(recent)-1].status == 200 && !recent[len(recent)-1].unchecked {
						break
					}
					if time.Since(back) > 10*time.Second {
						t.Fatalf("%s: nothing is decided after the store is back\n%s", phase.name, s.log)
					}
					time.Sleep(5 * time.Millisecond)
				}
				t.Logf("%s: the longest answer took %s; ready %s after the store", phase.name, longest.Round(time.Millisecond), back.Sub(begun).Round(time.Millisecond))
				if longest > 5*time.Second {
					t.Errorf("%s: an answer took %s", phase.name, longest)
				}
				if i == 0 {
					goroutines = runtime.NumGoroutine()
				} else { // what leaks stays; dials that are under way end
					eventually(t, fmt.Sprintf("%s: no more goroutines than before, which were %d", phase.name, goroutines), func() bool { return runtime.NumGoroutine() <= goroutines+15 })
				}
			}
			w.stop()
			w.group.Wait()

			// The unchecked hits are in the log, and the lines of the outages are few.
			var unchecked, logged int64
			for _, seen := range w.during(time.Time{}, time.Now()) {
				if seen.unchecked {
					unchecked++
				}
			}
			for begun := time.Now(); logged != unchecked; time.Sleep(20 * time.Millisecond) {
				if time.Since(begun) > 10*time.Second {
					t.Fatalf("%d unchecked hits were answered, %d are in the log", unchecked, logged)
				}
				logged = uncheckedIn(t, s)
			}
			s.stop()
			if lines := strings.Count(s.log.String(), "\n"); lines > 100 {
				t.Errorf("%d lines of log for three outages", lines)
			}
			for _, text := range []string{"the store is down", "the store is back"} {
				if n := strings.Count(s.log.String(), text); n < 2 || n > 6 {
					t.Errorf("%q stands %d times in the log of three outages", text, n)
				}
			}
		})
	}
}

// uncheckedIn is how many unchecked hits the log of a server has.
func uncheckedIn(t *testing.T, s *service) (hits int64) {
	t.Helper()
	history, closeLog, err := ratelimitlog.NewHistory(context.Background(), s.config)
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog()
	query := domain.CallQuery{Limit: 1000, OldestFirst: true}
	for {
		calls, err := history.Calls(context.Background(), query)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls {
			query.After = call.ID
			if call.Kind == domain.CallUnchecked {
				hits += call.Hits
			}
		}
		if len(calls) < query.Limit {
			return hits
		}
	}
}

// Where the log is apart from the counters, hits do not depend on it, and nothing is
// missing in it afterwards.
func TestHitsGoOnWhileTheAuditLogIsAway(t *testing.T) {
	audit := "sqlite:" + filepath.Join(t.TempDir(), "audit.db")
	s := serve(t, func(c *ratelimitlog.Config) {
		c.DSN, c.AuditDSN, c.Limit = servicetest.Redis(t), audit, "1000"
	})
	s.ping(t, "k")
	db := database(t, audit)
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if a := s.ping(t, "k"); a.status != 200 {
			t.Fatalf("ping %d: %d %s", i+1, a.status, a.body)
		}
		if a := s.request(t, "GET", "/readyz"); a.status != 200 {
			t.Fatalf("/readyz after ping %d: %d %s", i+1, a.status, a.body)
		}
	}
	if _, err := db.Exec(`COMMIT`); err != nil {
		t.Fatal(err)
	}
	s.stop() // logs what is left
	if got := count(t, audit, `SELECT key, sum(hits) FROM api_calls WHERE allowed GROUP BY key`)["k"]; got != 51 {
		t.Errorf("the log has %d hits, want 51", got)
	}
}
