package ratelimitlog_test

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

var (
	// closeBrowser ends the browser of the tests, if one was started.
	closeBrowser = func() {}
	// browser is a context of the one Chromium that all tests share, or why there is none.
	browser = sync.OnceValues(func() (context.Context, error) {
		var path string
		var err error
		for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
			if path, err = exec.LookPath(name); err == nil {
				break
			}
		}
		if err != nil {
			return nil, err
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU,
			chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("lang", "en-US"))
		if os.Getuid() == 0 { // whose processes Chromium's sandbox does not take
			options = append(options, chromedp.NoSandbox)
		}
		allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, _ := chromedp.NewContext(allocator)
		closeBrowser = func() {
			chromedp.Cancel(ctx)
			stop()
		}
		return ctx, chromedp.Do(ctx)
	})
)

// tab is a page in the browser. A test that opened one fails if the page asks any
// server but its own, breaks its own policy, opens a dialog or writes an error to the
// console.
type tab struct {
	t    testing.TB
	ctx  context.Context
	base string // of the addresses that may be asked

	mu       sync.Mutex
	asked    []string // addresses, in order
	failings []string
	// mayFail allows answers that are errors, which the console tells.
	mayFail bool
}

// fast lets a page's timers run twenty times as fast.
const fast = `{const real = setTimeout; setTimeout = (f, ms, ...args) => real(f, ms / 20, ...args)}`

// newTab opens a tab for the pages below base. The scripts run before each page's own.
func newTab(t testing.TB, base string, scripts ...string) *tab {
	t.Helper()
	parent, err := browser()
	if err != nil {
		servicetest.Missing(t, "there is no Chromium to test with: %v", err)
	}
	b := &tab{t: t, base: base}
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithListener(b.listen))
	b.ctx = ctx
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the page: %.700s", b.text("document.body?.innerText ?? ''"))
		}
		chromedp.Cancel(ctx)
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, failing := range b.failings {
			t.Error(failing)
		}
	})
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	call(b, audits.Enable, cdp.Empty{})
	for _, script := range scripts {
		call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	}
	return b
}

// listen hears what the browser tells of the tab.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fail := func(format string, args ...any) { b.failings = append(b.failings, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		address := e.Request.URL
		b.asked = append(b.asked, address)
		if !strings.HasPrefix(address, b.base+"/") && !strings.HasPrefix(address, "data:") && address != "about:blank" {
			fail("the page asked %s, outside its server", address)
		}
	case *runtime.EventExceptionThrown:
		fail("the page failed: %s %s", e.ExceptionDetails.Text, told(e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			fail("the page wrote to the console: %s %s", e.Type, told(e.Args...))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" && !(b.mayFail && e.Entry.Source == "network") {
			fail("the browser complains: %s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if e.Issue.Code == "ContentSecurityPolicyIssue" {
			fail("the page breaks its policy: %+v", e.Issue.Details.ContentSecurityPolicyIssueDetails)
		}
	case *page.EventJavascriptDialogOpening:
		fail("the page opened a dialog: %s", e.Message)
	}
}

// told is what values of a page tell.
func told(values ...*runtime.RemoteObject) (texts []string) {
	for _, value := range values {
		if value != nil {
			texts = append(texts, cmp.Or(value.Description, string(value.Value)))
		}
	}
	return texts
}

// requests are the addresses asked so far, below the base.
func (b *tab) requests() (targets []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, address := range b.asked {
		targets = append(targets, strings.TrimPrefix(address, b.base))
	}
	return targets
}

// failuresMayBeTold lets the console tell of answers that are errors.
func (b *tab) failuresMayBeTold() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mayFail = true
}

// call sends a command to the browser.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatalf("%s: %v", command.Method, err)
	}
}

// open loads a page below the base.
func (b *tab) open(target string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + target))
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// eval is what an expression comes to in the page, a promise's end included.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// text is a text that an expression comes to, or why it does not.
func (b *tab) text(expression string) string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		return err.Error()
	}
	return value
}

// wait waits until an expression is true in the page. While another page comes into its
// place there may be nothing that it could be told of.
func (b *tab) wait(expression string, args ...any) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	expression = fmt.Sprintf(expression, args...)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")", chromedp.EvalAwaitPromise))
		if err == nil && is {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("never true: %s (%v)", expression, err)
		}
	}
}

// want checks an expression in the page.
func (b *tab) want(expression string, args ...any) {
	b.t.Helper()
	if expression = fmt.Sprintf(expression, args...); !eval[bool](b, "Boolean("+expression+")") {
		b.t.Errorf("not true: %s", expression)
	}
}

// click clicks on what a CSS selector names, with the mouse.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.wait("document.querySelector(%q)?.offsetParent", selector)
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// fill puts a text in a field as typing does, in the place of what is there.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.wait("document.querySelector(%q)?.offsetParent", selector)
	eval[bool](b, fmt.Sprintf("{const f = document.querySelector(%q); f.focus(); f.select?.(); true}", selector))
	call(b, input.InsertText, input.InsertTextParams{Text: text})
}

// press presses a key, like kb.Tab.
func (b *tab) press(key string, options ...chromedp.KeyOption) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(key, options...))
}

// choose takes an option of a select element.
func (b *tab) choose(selector, value string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf("{const f = document.querySelector(%q); f.value = %q; f.dispatchEvent(new Event('change', {bubbles: true})); true}", selector, value))
}

// screen is a size in CSS pixels, and how many pixels of the device each is.
type screen struct {
	width, height int64
	scale         float64
	mobile        bool
}

var (
	desktop = screen{1280, 900, 1, false}
	phone   = screen{360, 740, 2, true}
)

// look makes the page as large as a screen, "light" or "dark".
func (b *tab) look(s screen, scheme string) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: s.width, Height: s.height, DeviceScaleFactor: s.scale, Mobile: s.mobile})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// address is where the tab is.
func (b *tab) address() *url.URL {
	b.t.Helper()
	at, err := url.Parse(eval[string](b, "location.href"))
	if err != nil {
		b.t.Fatal(err)
	}
	return at
}
