package httpapi

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

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

const (
	// lastWait is how long a server that stops answers as ever, and then how long it
	// still waits for a request that may be on its way.
	lastWait = 150 * time.Millisecond
	// lastLook is how long it then looks for one that arrived while nobody did: nothing
	// is read once a deadline is over, not even what was there before.
	lastLook = 20 * time.Millisecond
)

func (c *conn) Read(b []byte) (int, error) {
	c.asking.Store(true)
	n, err := c.Conn.Read(b)
	if c.stopping.Load() && !c.inRequest && errors.Is(err, os.ErrDeadlineExceeded) {
		c.Conn.SetReadDeadline(time.Now().Add(lastLook))
		if n, err = c.Conn.Read(b); errors.Is(err, os.ErrDeadlineExceeded) {
			err = io.EOF // no request, so no answer that one did not arrive in time
		}
	}
	if err != nil {
		c.asking.Store(false)
	}
	if n > 0 {
		if c.stopping.Load() && !c.inRequest {
			c.Conn.SetReadDeadline(c.read) // the rest may take its time
		}
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
