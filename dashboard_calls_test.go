package ratelimitlog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// found waits until the list of calls is that of the filters, and an expression is true.
func (b *tab) found(expression string) {
	b.t.Helper()
	b.wait("!document.querySelector('#calls').hasAttribute('aria-busy') && (%s)", expression)
}

func TestTheDashboardFindsCalls(t *testing.T) {
	s := serveDashboard(t, nil)
	s.hit(t, "alice", "default", 5)
	s.hit(t, "bob", "login", 60) // 5 allowed, refused ones may share rows
	s.request(t, "GET", "/ping", "X-Client-Key", "carol", "X-Request-ID", "look-for-me")
	b := newTab(t, s.url)
	b.signIn()
	b.fill("#f-key", "alice")
	b.choose("#f-outcome", "refused")
	b.click("#filter [type=submit]")
	b.found("[...document.querySelectorAll('#calls tbody tr')].every(r => r.innerText.includes('alice') && r.innerText.includes('refused'))")
	if got := b.column("#calls", 4); got[0] != "3 of 3" {
		t.Errorf("used: %q", got)
	}
	if at := b.address().Fragment; !strings.Contains(at, "f.key=alice") || !strings.Contains(at, "f.outcome=refused") {
		t.Errorf("the address is …#%s", at)
	}
	b.do(chromedp.Reload())
	b.settled()
	b.want("document.querySelector('#f-key').value === 'alice' && document.querySelector('#f-outcome').value === 'refused' && !document.querySelector('#calls').innerText.includes('bob')")

	b.click("#calls tbody tr:last-child button")
	b.seen("#explain-title", "alice under default")
	b.seen("#words", "alice was refused at")
	b.want("document.activeElement.id === 'inspect-title'")

	b.click("#filter [type=reset]")
	b.found("document.querySelector('#calls tbody').innerText.includes('bob') && !location.hash.includes('f.')")
	b.fill("#f-request_id", "look-for-me")
	b.press(kb.Enter)
	b.found("document.querySelectorAll('#calls tbody tr').length === 1 && document.querySelector('#calls tbody').innerText.includes('carol')")
	b.click("#filter [type=reset]")
	b.fill("#f-path", "/ping")
	b.press(kb.Enter)
	b.found("document.querySelectorAll('#calls tbody tr').length === 1 && document.querySelector('#calls tbody').innerText.includes('/ping')")
	b.click("#filter [type=reset]")
	b.fill("#f-policy", "login")
	b.choose("#f-outcome", "allowed")
	b.press(kb.Enter)
	b.found("document.querySelectorAll('#calls tbody tr').length === 5 && document.querySelector('#calls tbody').innerText.includes('bob')")
	b.choose("#f-outcome", "changes")
	b.fill("#f-policy", "")
	b.press(kb.Enter)
	b.found("[...document.querySelectorAll('#calls tbody tr')].every(r => r.innerText.includes('policy put in force')) && document.querySelectorAll('#calls tbody tr').length === 4")
	b.click("#filter [type=reset]")
	eval[bool](b, "document.querySelector('#f-to').value = '2020-01-01T00:00:00', document.querySelector('#filter').requestSubmit(), true")
	b.seen("#calls .none", "No call is like that.")
	b.failuresMayBeTold()
	eval[bool](b, "document.querySelector('#f-from').value = '2021-01-01T00:00:00', document.querySelector('#filter').requestSubmit(), true")
	b.seen("#calls .problem", "to must be after from")
	b.want("!document.querySelector('#banner').textContent")
}

// A filter is what was typed, however often the list is brought up to date meanwhile.
func TestTheDashboardLeavesWhatIsTypedIntoFilters(t *testing.T) {
	s := serveDashboard(t, nil)
	s.hit(t, "alice", "default", 1)
	s.hit(t, "bob", "default", 1)
	b := newTab(t, s.url, fast)
	b.signIn()
	b.fill("#f-key", "alice")
	b.press(kb.Enter)
	b.found("document.querySelectorAll('#calls tbody tr').length === 1 && document.querySelector('#calls tbody').innerText.includes('alice')")
	b.fill("#f-key", "bob")
	b.press(kb.Tab) // to another field
	asked := len(b.requests())
	eventually(t, "the list is asked for again", func() bool { return len(b.requests()) > asked+20 })
	b.want("document.querySelector('#f-key').value === 'bob'")
	b.press(kb.Enter)
	b.found("document.querySelectorAll('#calls tbody tr').length === 1 && document.querySelector('#calls tbody').innerText.includes('bob')")
}

func TestTheDashboardTurnsPages(t *testing.T) {
	s := serveDashboard(t, nil)
	for i := range 120 {
		s.hit(t, fmt.Sprintf("key-%d", i), "default", 1)
	}
	b := newTab(t, s.url, fast)
	b.signIn()
	b.found("document.querySelectorAll('#calls tbody tr').length === 50")
	b.click("#older")
	b.seen("#calls tbody tr:first-child", "key-69")
	s.hit(t, "later", "default", 1)
	b.seen("#allowed-sum", "121") // the rest goes on
	b.want("document.querySelector('#calls tbody tr').innerText.includes('key-69')")
	b.click("#older")
	b.seen("#calls tbody tr:first-child", "key-19")
	b.want("document.querySelector('#older').disabled")
	b.click("#newest")
	b.seen("#calls tbody tr:first-child", "later")
}
