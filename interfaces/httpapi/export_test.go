package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/memstore"
)

// many calls are more than the buffers between server and client hold.
const many = 60_000

// newExportServer makes a server whose log has many calls, and which an audit token opens.
func newExportServer(t *testing.T, timeout time.Duration) *Server {
	t.Helper()
	s := newTestServer(t, 1000, timeout)
	log := memstore.New(memstore.Options{MaxCalls: many})
	calls := make([]domain.Call, many)
	for i := range calls {
		calls[i] = domain.Call{Kind: domain.CallHit, At: time.Now(), Policy: "p", Key: "k", Hits: 1, Cost: 1, Origin: domain.Origin{Path: strings.Repeat("/path", 20)}}
	}
	if err := log.Append(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	s.history = application.NewHistory(log, application.HistoryOptions{})
	var err error
	if s.guard, err = newGuard(Tokens{Audit: "t"}, zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask asks for an export and reads its header, and nothing more.
func ask(t *testing.T, addr string) (net.Conn, *http.Response) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.(*net.TCPConn).SetReadBuffer(1 << 16)
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	const sent = "GET /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\nAccept: application/x-ndjson\r\n\r\n"
	fmt.Fprint(conn, sent)
	response, err := read(bufio.NewReader(conn), sent)
	if err != nil {
		t.Fatal(err)
	}
	return conn, response
}

// lines reads the rest of an answer; err is nil if it is whole.
func lines(response *http.Response) (n int, err error) {
	body, err := io.ReadAll(response.Body)
	return strings.Count(string(body), "\n"), err
}

func TestAtMostFourExportsAreUnderWay(t *testing.T) {
	s := newExportServer(t, 30*time.Second)
	core, logged := observer.New(zapcore.InfoLevel)
	s.log = zap.New(core)
	addr := listen(t, s)
	first, _ := ask(t, addr)
	for range maxExports - 1 {
		if _, response := ask(t, addr); response.StatusCode != 200 {
			t.Fatalf("%v", response)
		}
	}
	if _, response := ask(t, addr); response.StatusCode != 503 || response.Header.Get("Retry-After") != "1" || response.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("the fifth: %v", response)
	}
	if logged.Len() != 0 { // that is no failure of the server's
		t.Errorf("the fifth is logged: %v", logged.All())
	}
	first.Close() // who goes away leaves the place to others
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, response := ask(t, addr)
		if response.StatusCode == 200 {
			if n, err := lines(response); n != many || err != nil {
				t.Errorf("an export of %d lines, %v", n, err)
			}
			return
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatal("a place never becomes free")
		}
	}
}

func TestAClientMayTakeAnExportSlowlyButMustTakeIt(t *testing.T) {
	addr := listen(t, newExportServer(t, 500*time.Millisecond))
	_, slow := ask(t, addr)
	begun, n := time.Now(), 0
	reader := bufio.NewReaderSize(slow.Body, 1<<20)
	for time.Since(begun) < 1500*time.Millisecond { // three times the time-out
		for range 1000 {
			if _, err := reader.ReadSlice('\n'); err != nil {
				t.Fatalf("cut off after %d lines and %s: %v", n, time.Since(begun), err)
			}
			n++
		}
		time.Sleep(20 * time.Millisecond)
		if n > many-2000 {
			break
		}
	}
	rest, err := io.ReadAll(reader)
	if n += strings.Count(string(rest), "\n"); err != nil || n != many {
		t.Errorf("taken slowly it has %d lines, %v", n, err)
	}
	_, stuck := ask(t, addr)
	time.Sleep(2 * time.Second)
	if n, err := lines(stuck); err == nil {
		t.Errorf("who takes nothing was not cut off: %d lines", n)
	}
}

func TestAnExportEndsBeforeTheServerHasToStop(t *testing.T) {
	s := newExportServer(t, 30*time.Second)
	core, logged := observer.New(zapcore.InfoLevel)
	s.log = zap.New(core)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	_, stuck := ask(t, listener.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := errors.Join(s.Shutdown(ctx), <-ended); err != nil {
		t.Errorf("stop: %v", err)
	}
	if n, err := lines(stuck); err == nil {
		t.Errorf("an export that was cut off looks whole: %d lines", n)
	}
	if said := logged.FilterMessage("an export was cut off, the server stops"); said.Len() != 1 || logged.FilterLevelExact(zapcore.ErrorLevel).Len() != 0 {
		t.Errorf("logged: %v", logged.All())
	}
}

// brokenLog fails, or panics, after some pages.
type brokenLog struct {
	domain.AuditLog
	left  atomic.Int64
	panic bool
}

func (b *brokenLog) Calls(ctx context.Context, query domain.CallQuery) ([]domain.Call, error) {
	if b.left.Add(-1) > 0 {
		return b.AuditLog.Calls(ctx, query)
	}
	if b.panic {
		panic("broken")
	}
	return nil, errors.New("broken")
}

func TestAnExportThatFailsDoesNotLookWhole(t *testing.T) {
	for _, panics := range []bool{false, true} {
		s := newExportServer(t, 30*time.Second)
		log := memstore.New(memstore.Options{})
		if err := log.Append(t.Context(), slices.Repeat([]domain.Call{{Kind: domain.CallHit, Policy: "p", Cost: 1, Hits: 1}}, 10*application.MaxPage)); err != nil {
			t.Fatal(err)
		}
		broken := &brokenLog{AuditLog: log, panic: panics}
		s.history = application.NewHistory(broken, application.HistoryOptions{})
		addr := listen(t, s)
		for i := range 2 * maxExports { // no place is lost
			broken.left.Store(5)
			_, response := ask(t, addr)
			if n, err := lines(response); response.StatusCode != 200 || n != 3*application.MaxPage || err == nil {
				t.Errorf("export %d: %d with %d lines, %v", i, response.StatusCode, n, err)
			}
			broken.left.Store(2)
			if _, response = ask(t, addr); response.StatusCode < 500 {
				t.Errorf("export %d without a first page: %d", i, response.StatusCode)
			}
		}
	}
}
