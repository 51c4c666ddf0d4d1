package httpapi

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// listener accepts connections that are kinder to the server under Fiber. When it stops
// it loses none: what has connected is answered, who comes later is refused at once and
// may ask another server.
type listener struct {
	net.Listener
	slack    time.Duration
	stopping *atomic.Bool
	silent   *silent

	stopped chan struct{} // closed when stop is over
	waiting chan net.Conn // had connected, and were not accepted, when it stopped; set once it has
	closed  chan struct{}

	stopOnce, closeOnce sync.Once
}

func newListener(l net.Listener, slack time.Duration, stopping *atomic.Bool, silent *silent) *listener {
	return &listener{Listener: l, slack: slack, stopping: stopping, silent: silent, stopped: make(chan struct{}), closed: make(chan struct{})}
}

// Accept waits for Close once the listener has stopped.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil && l.stopping.Load() {
		<-l.stopped
		c, err = l.acceptWaiting()
	}
	if err != nil {
		return nil, err
	}
	ours := &conn{Conn: c, slack: l.slack, stopping: l.stopping, silent: l.silent}
	l.silent.add(ours)
	return ours, nil
}

func (l *listener) acceptWaiting() (net.Conn, error) {
	select {
	case c := <-l.waiting:
		return c, nil
	default:
	}
	select {
	case c := <-l.waiting:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// stop ends listening, after stopping is set.
func (l *listener) stop() {
	l.stopOnce.Do(func() {
		waiting := stopListening(l.Listener)
		l.Listener.Close()
		l.waiting = make(chan net.Conn, len(waiting))
		for _, c := range waiting {
			l.waiting <- c
		}
		close(l.stopped)
	})
}

func (l *listener) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	if l.stopping.Load() {
		l.stop()
		return nil
	}
	return l.Listener.Close()
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
