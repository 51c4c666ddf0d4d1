package httpapi

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
)

func TestAListenerThatStopsGivesOutWhatHadConnectedAndRefusesWhoComesLater(t *testing.T) {
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	var stopping atomic.Bool
	l := newListener(listening, 0, &stopping, new(silent))
	address := listening.Addr().String()
	for range 5 {
		client, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		io.WriteString(client, "GET")
	}
	stopping.Store(true)
	l.stop()
	for range 5 {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 10)
		if n, err := c.Read(b); n != 3 || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
		c.Close()
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("a client has connected to what does not listen")
	}
	l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed with %v", err)
	}
	if l.stop(); l.Close() != nil {
		t.Error("a second stop failed")
	}
}
