package httpapi

import (
	"net"
	"time"
)

// lazyListener accepts connections whose deadlines are kept to slack.
//
// The server under Fiber sets three deadlines for each request, and each costs
// some readings of the clock and a change of a timer; together that is a fiftieth
// of what a refusal costs. A deadline that moves by less than slack is left where
// it is: the connection is cut off so much early.
type lazyListener struct {
	net.Listener
	slack time.Duration
}

func (l lazyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lazyConn{Conn: c, slack: l.slack}, nil
}

// lazyConn is used by one goroutine, as the server does.
type lazyConn struct {
	net.Conn
	slack       time.Duration
	read, write time.Time // the deadlines that are set
}

func (c *lazyConn) SetReadDeadline(t time.Time) error {
	if near(c.read, t, c.slack) {
		return nil
	}
	c.read = t
	return c.Conn.SetReadDeadline(t)
}

func (c *lazyConn) SetWriteDeadline(t time.Time) error {
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
