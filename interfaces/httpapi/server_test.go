package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/gormstore"
)

// newTestServer makes a server with a limit for each day and a time-out.
func newTestServer(t testing.TB, limit int64, timeout time.Duration) *Server {
	t.Helper()
	return newTestServerWith(t, limit, Options{timeout: timeout})
}

func newTestServerWith(t testing.TB, limit int64, options Options) *Server {
	t.Helper()
	store, err := gormstore.Open(context.Background(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), gormstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	schedule, err := domain.Fixed(24 * time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := domain.NewPolicy(domain.DefaultPolicy, limit, schedule)
	if err != nil {
		t.Fatal(err)
	}
	rules := domain.Rules{Policies: []domain.Policy{policy}}
	if err := rules.Routes.Add(domain.PingRoute()); err != nil {
		t.Fatal(err)
	}
	inForce, err := application.NewRules(rules)
	if err != nil {
		t.Fatal(err)
	}
	limiter, stop := application.NewLimiter(inForce, application.Stores{Units: store, Counter: store, Quotas: store}, application.Options{})
	t.Cleanup(stop)
	s, err := New(zap.NewNop(), limiter, application.NewHistory(store, application.HistoryOptions{}), store, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// listen serves on a free port until the test ends.
func listen(t *testing.T, s *Server) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(s.Shutdown(ctx), <-ended); err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func TestSlowClientsAreCutOffAndOthersAreServed(t *testing.T) {
	addr := listen(t, newTestServer(t, 1000, 500*time.Millisecond))
	var slow []net.Conn
	for i := range 50 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		sent := []string{"", "G", "GET /ping HTTP/1.1\r\nHost:", "GET /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel"}[i%4]
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
	}
	response, err := http.Get("http://" + addr + "/ping")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("beside slow clients: %d", response.StatusCode)
	}
	for i, conn := range slow {
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.ReadAll(conn); err != nil {
			t.Fatalf("slow client %d was not cut off: %v", i, err)
		}
	}
}

func TestAConnectionThatIsUsedStaysOpen(t *testing.T) {
	const timeout = 600 * time.Millisecond
	addr := listen(t, newTestServer(t, 1000, timeout))
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for begun := time.Now(); time.Since(begun) < 3*timeout; time.Sleep(timeout / 10) {
		const sent = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		response, err := read(reader, sent)
		if err != nil {
			t.Fatalf("after %s: %v", time.Since(begun), err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}

func TestAPanicIsA500ThatTellsNothingAndIsLogged(t *testing.T) {
	s := newTestServer(t, 1, time.Minute)
	core, logged := observer.New(zapcore.InfoLevel)
	s.log = zap.New(core)
	s.get("/panic", func(*fiber.Ctx, asked) error { panic("secret") })
	addr := listen(t, s)
	response, err := http.Get("http://" + addr + "/panic")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"type":"about:blank","title":"Internal Server Error","status":500,"instance":"/panic"}`; response.StatusCode != 500 || string(body) != want {
		t.Errorf("%d %s, want 500 %s", response.StatusCode, body, want)
	}
	lines := logged.FilterMessage("request failed").All()
	if len(lines) != 1 {
		t.Fatalf("logged %v", logged.All())
	}
	fields := lines[0].ContextMap()
	if !strings.Contains(fields["error"].(string), "panic: secret") || !strings.Contains(fields["error"].(string), "server_test.go") ||
		fields["request_id"] != response.Header.Get("X-Request-Id") {
		t.Errorf("logged %v", fields)
	}
}

func TestAccessLinesAreWrittenAtLevelDebug(t *testing.T) {
	s := newTestServer(t, 1, time.Minute)
	core, logged := observer.New(zapcore.DebugLevel)
	s.log = zap.New(core)
	addr := listen(t, s)
	request, err := http.NewRequest("GET", "http://"+addr+"/ping", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Request-ID", "mine")
	for range 2 {
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	response, err := http.Get("http://" + addr + "/status?key=") // answered as an error
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	lines := logged.FilterMessage("request").All()
	if len(lines) != 3 || lines[2].ContextMap()["status"] != int64(422) || lines[0].ContextMap()["status"] != int64(200) || lines[1].ContextMap()["status"] != int64(429) || lines[0].ContextMap()["request_id"] != "mine" {
		t.Errorf("logged %v", lines)
	}
}
