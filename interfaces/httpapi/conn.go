package httpapi

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// listener accepts connections that are kinder to the server under Fiber.
type listener struct {
	net.Listener
	slack    time.Duration
	stopping *atomic.Bool
	silent   *silent
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	ours := &conn{Conn: c, slack: l.slack, stopping: l.stopping, silent: l.silent}
	l.silent.add(ours)
	return ours, nil
}

// silent are the connections on which nothing has arrived yet. The server takes them
// for busy, and would wait for them when it stops.
type silent struct {
	mu    sync.Mutex
	conns map[*conn]bool
}

func (s *silent) add(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		s.conns = map[*conn]bool{}
	}
	s.conns[c] = true
}

func (s *silent) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// end ends the wait for a first byte on all of them, soon.
func (s *silent) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Conn.SetReadDeadline(time.Now().Add(lastWait))
	}
}

// conn keeps its deadlines to slack: the server sets three for each request, and
// each costs some readings of the clock and a change of a timer, together a
// fiftieth of what a refusal costs. A deadline that moves by less than slack is
// left where it is, and the connection is cut off so much early.
//
// It also keeps the server, when that stops and closes idle connections, from
// closing one on which a request has just arrived: the first close only ends the
// wait for a request. One that arrives within lastWait is answered; in any case the
// server closes the connection then.
type conn struct {
	net.Conn
	slack       time.Duration
	read, write time.Time // the deadlines that are set; one goroutine's
	stopping    *atomic.Bool
	asking      atomic.Bool // a request is waited for, or read and not answered yet
	spared      atomic.Bool
	silent      *silent
	heard       bool // something has arrived; the reading goroutine's
	inRequest   bool // something has arrived since the last answer; likewise
}

// lastWait is how long a server that stops still waits for a request that may be on
// its way. It is never none: what has arrived is not read once a deadline is over.
const lastWait = 100 * time.Millisecond

func (c *conn) Read(b []byte) (int, error) {
	c.asking.Store(true)
	n, err := c.Conn.Read(b)
	if c.stopping.Load() && !c.inRequest && errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF // no request, so no answer that one did not arrive in time
	}
	if err != nil {
		c.asking.Store(false)
	}
	if n > 0 {
		c.inRequest = true
	}
	if !c.heard {
		c.heard = true
		c.silent.remove(c)
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.asking.Store(false)
	c.inRequest = false
	return n, err
}

func (c *conn) Close() error {
	if c.stopping.Load() && c.asking.Load() && c.spared.CompareAndSwap(false, true) {
		return c.Conn.SetReadDeadline(time.Now().Add(lastWait))
	}
	c.silent.remove(c)
	return c.Conn.Close()
}

// abort cuts a connection off, whatever is under way on it.
func abort(c net.Conn) {
	if ours, ok := c.(*conn); ok {
		c = ours.Conn
	}
	c.Close()
}

func (c *conn) SetReadDeadline(t time.Time) error {
	if near(c.read, t, c.slack) {
		return nil
	}
	c.read = t
	if !c.heard && c.stopping.Load() {
		t = time.Now().Add(lastWait)
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	if near(c.write, t, c.slack) {
		return nil
	}
	c.write = t
	return c.Conn.SetWriteDeadline(t)
}

// near reports whether a deadline that is set will do for one that is asked for.
func near(set, asked time.Time, slack time.Duration) bool {
	later := asked.Sub(set)
	return !set.IsZero() && !asked.IsZero() && later >= 0 && later < slack
}
