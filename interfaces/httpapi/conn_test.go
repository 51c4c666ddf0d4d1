package httpapi

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// stoppingConn is a connection of a server that stops, and its client's end.
func stoppingConn(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", listening.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	var stopping atomic.Bool
	accepted, err := newListener(listening, 0, &stopping, new(silent)).Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close(); accepted.Close(); listening.Close() })
	stopping.Store(true)
	return accepted.(*conn), client
}

func TestARequestThatArrivesAsTheServerStopsIsRead(t *testing.T) {
	for state, arrange := range map[string]func(server *conn, ask func()){
		"before the stop":  func(server *conn, ask func()) { ask(); server.silent.end() },
		"during the wait":  func(server *conn, ask func()) { server.silent.end(); time.AfterFunc(lastWait/10, ask) },
		"when nobody read": func(server *conn, ask func()) { server.Conn.SetReadDeadline(time.Now()); ask() },
	} {
		server, client := stoppingConn(t)
		arrange(server, func() { io.WriteString(client, "GET") })
		b := make([]byte, 10)
		if n, err := server.Read(b); n != 3 || err != nil {
			t.Errorf("%s: read %d bytes, %v", state, n, err)
		}
		time.AfterFunc(lastWait*3/2, func() { io.WriteString(client, " /") })
		if n, err := server.Read(b); n != 2 || err != nil {
			t.Errorf("%s: read %d bytes of the rest, %v", state, n, err)
		}
		server.SetReadDeadline(time.Now())
		if _, err := server.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: half a request ended with %v, want a timeout", state, err)
		}
	}
}

func TestAConnectionWithoutARequestEndsWithoutAnAnswerWhenTheServerStops(t *testing.T) {
	server, _ := stoppingConn(t)
	server.silent.end()
	if n, err := server.Read(make([]byte, 10)); n != 0 || err != io.EOF {
		t.Errorf("read %d bytes, %v, want the end", n, err)
	}
}
