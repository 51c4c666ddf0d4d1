package openapitest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Witness holds what passes between a suite's clients and its servers to a description.
// Of exchanges alike, which are those of one operation with one status and one form of
// the body, it holds the first hundred, then every hundredth: the others of a load loop
// show nothing new. Of answers that come in lines it looks at the first 64 KiB, and at
// no other body of more than a MiB. It is safe for concurrent use.
type Witness struct {
	spec  *Spec
	alike sync.Map // string to *atomic.Int64
	held  atomic.Int64

	mu     sync.Mutex
	faults []string
}

const (
	heldFirst = 100
	heldEach  = 100
	heldBytes = 1 << 20
	heldLines = 1 << 16
	maxFaults = 20
)

// NewWitness makes a witness of a description that must be readable.
func NewWitness(description []byte) (*Witness, error) {
	spec, err := Load(description)
	return &Witness{spec: spec}, err
}

// Main runs a suite with [http.DefaultTransport] held to the description, and returns its
// exit status: 1 also if something was not as it is described, which it prints.
func Main(m interface{ Run() int }, w *Witness) int {
	http.DefaultTransport = w.Transport(http.DefaultTransport)
	code := m.Run()
	faults := w.Faults()
	if len(faults) == 0 {
		return code
	}
	fmt.Fprintf(os.Stdout, "FAIL: answers are not as they are described:\n%s\n", strings.Join(faults, "\n"))
	return max(code, 1)
}

// Faults are what was not as it is described, the first of them.
func (w *Witness) Faults() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.faults)
}

// Held is how many exchanges were held to the description.
func (w *Witness) Held() int64 { return w.held.Load() }

// picks reports whether an exchange is to be held, being one of those alike.
func (w *Witness) picks(alike string) bool {
	count, ok := w.alike.Load(alike)
	if !ok {
		count, _ = w.alike.LoadOrStore(alike, new(atomic.Int64))
	}
	n := count.(*atomic.Int64).Add(1)
	return n <= heldFirst || n%heldEach == 0
}

// hold holds an exchange to the description.
func (w *Witness) hold(e *Exchange) {
	w.held.Add(1)
	err := w.spec.Check(e)
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	target := ""
	if e.URL != nil {
		target = e.URL.RequestURI()
	}
	if fault := fmt.Sprintf("%s %s: %d: %v", e.Method, target, e.Status, err); len(w.faults) < maxFaults && !slices.Contains(w.faults, fault) {
		w.faults = append(w.faults, fault)
	}
}

// Transport holds what passes through next.
func (w *Witness) Transport(next http.RoundTripper) http.RoundTripper { return &transport{w, next} }

type transport struct {
	witness *Witness
	next    http.RoundTripper
}

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil && response.StatusCode != http.StatusSwitchingProtocols {
		t.witness.Watch(request, response)
	}
	return response, err
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] asks for.
func (t *transport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// Watch holds a response once its body is read to its end, or closed. A request of nil
// is one that could not be read.
func (w *Witness) Watch(request *http.Request, response *http.Response) {
	e := &Exchange{Status: response.StatusCode, ResponseHeader: response.Header}
	alike := fmt.Sprint(response.StatusCode, response.Header["Content-Type"])
	if request != nil {
		e.Method, e.URL, e.Header = request.Method, request.URL, request.Header
		described, _ := w.spec.Path(e.URL.EscapedPath())
		alike += request.Method + described
	}
	if !w.picks(alike) {
		return
	}
	if request != nil && request.GetBody != nil {
		if sent, err := request.GetBody(); err == nil {
			e.Sent, _ = io.ReadAll(sent) // from memory
		}
	}
	room := heldBytes
	if response.ContentLength < 0 {
		room = heldLines
	}
	response.Body = &watched{ReadCloser: response.Body, end: sync.OnceFunc(func() { w.hold(e) }), e: e, room: room}
}

// watched is a body that is held once it ends.
type watched struct {
	io.ReadCloser
	end  func()
	e    *Exchange
	room int // of the body
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	kept := min(n, b.room)
	b.e.Body = append(b.e.Body, p[:kept]...)
	b.room -= kept
	if err == io.EOF {
		b.e.Whole = b.room > 0
	}
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *watched) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// ReadRequest reads a request that was sent as bytes, for [Witness.Watch]; nil if it is
// no HTTP.
func ReadRequest(sent string) *http.Request {
	line, rest, _ := strings.Cut(sent, "\r\n")
	fields := strings.Split(line, " ")
	if len(fields) != 3 {
		return nil
	}
	request, err := http.NewRequest(fields[0], fields[1], nil)
	if err != nil {
		return nil
	}
	head, body, _ := strings.Cut(rest, "\r\n\r\n")
	for line := range strings.SplitSeq(head, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			request.Header.Add(name, strings.TrimSpace(value))
		}
	}
	request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte(body))), nil }
	return request
}
