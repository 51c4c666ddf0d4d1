package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/url"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// maxExports is how many answers of any length may be under way: each reads the log
// as fast as its client takes it.
const maxExports = 4

// exports are the answers of any length that are under way.
type exports struct {
	places chan struct{}   // one taken for each
	ctx    context.Context // ends them
	end    context.CancelFunc
}

func newExports() *exports {
	e := &exports{places: make(chan struct{}, maxExports)}
	e.ctx, e.end = context.WithCancel(context.Background())
	return e
}

// endBefore ends the exports after two thirds of the time that the context leaves, so
// that the server can stop within it. The function it returns calls that off.
func (e *exports) endBefore(ctx context.Context) (callOff func() bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return func() bool { return true }
	}
	return time.AfterFunc(time.Until(deadline)*2/3, e.end).Stop
}

// export is the body of an answer of any length. It is made as it is read: it holds a
// page of the log, and the log is not held at all between two pages. Reading fails
// if the log does, so that the answer ends without its last chunk and no client takes
// the part for the whole.
type export struct {
	server  *Server
	id      string // of the request
	conn    net.Conn
	ctx     context.Context
	next    func() ([]domain.Call, error, bool)
	write   func([]byte, domain.Call) []byte
	page    []domain.Call // what is not written yet
	written []byte        // what is not read yet
	ended   bool          // whole, or it was said why not
	close   func()
}

// export streams all calls that the query asks for.
func (s *Server) export(c *fiber.Ctx, r asked, form string, values url.Values, query domain.CallQuery) (err error) {
	if values.Has("cursor") {
		return &domain.InvalidError{Field: "cursor", Reason: "is for pages of JSON; this answer has all calls"}
	}
	if query.Limit, err = rowLimit(values); err != nil {
		return err
	}
	select {
	case s.exports.places <- struct{}{}:
	default:
		return asProblem(problem.ReducedCapacity(fmt.Sprintf("%d answers of this kind are under way, which is all there may be.", maxExports)))
	}
	e := s.newExport(c.Context().Conn(), r.id, query)
	switch form {
	case mimeCSV:
		e.write, e.written = problem.AppendCallCSV, []byte(problem.CallCSVHeader)
	default:
		e.write = problem.AppendCallLine
	}
	if err := e.turn(); err != nil && err != io.EOF { // before the status is sent
		e.ended = true
		e.Close()
		return unreadLog(err)
	}
	if form == mimeCSV {
		form += "; charset=utf-8"
		set(c, fiber.HeaderContentDisposition, `attachment; filename="calls.csv"`)
	}
	c.Response().Header.SetContentType(form)
	if c.Method() == fiber.MethodHead {
		c.Response().Header.SetContentLength(-1) // as the answer to GET, which is chunked
		e.ended = true
		return e.Close()
	}
	c.Response().SetBodyStream(e, -1) // which closes it
	return nil
}

// newExport begins an export whose place is taken.
func (s *Server) newExport(conn net.Conn, id string, query domain.CallQuery) *export {
	ctx, cancel := context.WithCancel(s.exports.ctx)
	next, stop := iter.Pull2(s.pages(ctx, query))
	letGo := context.AfterFunc(ctx, func() { abort(conn) }) // also of a client that takes nothing
	return &export{server: s, id: id, conn: conn, ctx: ctx, next: next, close: sync.OnceFunc(func() {
		letGo()
		cancel()
		stop()
		<-s.exports.places
	})}
}

// pages are the pages of the log that have what the query asks for, and why they end early.
func (s *Server) pages(ctx context.Context, query domain.CallQuery) iter.Seq2[[]domain.Call, error] {
	return func(yield func([]domain.Call, error) bool) {
		enough := errors.New("nobody reads on")
		err := s.history.Each(ctx, query, func(page []domain.Call) error {
			if !yield(page, nil) {
				return enough
			}
			return nil
		})
		if err != nil && err != enough {
			yield(nil, err)
		}
	}
}

// turn reads the next page. It returns io.EOF if there is none.
func (e *export) turn() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	page, err, more := e.next()
	if !more {
		return io.EOF
	}
	e.page = page
	return err
}

// Read implements [io.Reader]. A page is sent whole before the next one is read, and
// the client has the server's time-out to take it.
func (e *export) Read(b []byte) (int, error) {
	for len(e.written) < len(b) {
		if len(e.page) == 0 {
			if len(e.written) > 0 {
				break
			}
			if err := e.turn(); err != nil {
				e.report(err)
				return 0, err
			}
			if err := e.conn.SetWriteDeadline(time.Now().Add(e.server.timeout)); err != nil {
				return 0, err
			}
			continue
		}
		e.written = e.write(e.written, e.page[0])
		e.page = e.page[1:]
	}
	n := copy(b, e.written)
	e.written = e.written[:copy(e.written, e.written[n:])]
	return n, nil
}

// report logs why an export ended early, once.
func (e *export) report(err error) {
	if e.ended {
		return
	}
	e.ended = true
	switch {
	case err == io.EOF:
	case e.server.exports.ctx.Err() != nil:
		e.server.log.Warn("an export was cut off, the server stops", zap.String("request_id", e.id))
	default:
		e.server.log.Error("an export was cut off", zap.String("request_id", e.id), zap.Error(err))
	}
}

// Close implements [io.Closer]. The export's place is free again. An export whose
// client takes nothing when the server stops is not read any more, only closed.
func (e *export) Close() error {
	if e.server.exports.ctx.Err() != nil {
		e.report(context.Canceled)
	}
	e.close()
	return nil
}
