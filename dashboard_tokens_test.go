package ratelimitlog_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/nene2-ft/ratelimitlog"
)

func TestTheDashboardAsksForTheToken(t *testing.T) {
	s := serveDashboard(t, func(c *ratelimitlog.Config) { c.ClientToken = clientToken })
	b := newTab(t, s.url)
	b.open("/dashboard")
	b.wait("document.activeElement.id === 'token'")
	b.want("document.querySelector('#board').hidden && document.querySelector('#token').type === 'password'")
	if asked := strings.Join(b.requests(), " "); strings.Contains(asked, "/v1/") {
		t.Errorf("without a token the page asked %s", asked)
	}
	b.failuresMayBeTold()
	for wrong, says := range map[string]string{"wrong": "The token is not right.", "töken": "The token is not right.", clientToken: "This needs the audit token; the one that was sent is another's."} {
		b.fill("#token", wrong)
		b.press(kb.Enter)
		b.seen("#signin-problem", says)
		b.want("document.activeElement.id === 'token' && document.activeElement.ariaInvalid === 'true' && document.querySelector('#board').hidden")
		b.want("sessionStorage.length === 0")
	}
	b.fill("#token", auditToken)
	b.press(kb.Enter)
	b.settled()
	b.want("document.querySelector('#signin').hidden && document.activeElement.id === 'main' && document.querySelector('#token').value === ''")
	b.do(chromedp.Reload()) // in this tab
	b.settled()
	b.click("#signout")
	b.wait("document.activeElement?.id === 'token' && document.querySelector('#board')?.hidden && sessionStorage.length === 0")
	b.want("location.hash === '' && document.querySelector('#throughput .summary').textContent === ''")
	b.want("!document.body.innerHTML.includes(%q) && localStorage.length === 0 && document.cookie === ''", auditToken)

	// An address with a token signs in, and does not keep it.
	b.open("/dashboard#span=6h&token=" + auditToken)
	b.settled()
	if at := b.address(); at.Fragment != "span=6h" {
		t.Errorf("the address is %s", at)
	}
	b.want("document.querySelector('#span').value === '6h'")
	b.open("/dashboard#token=wrong")
	b.seen("#signin-problem", "The token is not right.")
	if at := b.address(); at.Fragment != "" {
		t.Errorf("the address is %s", at)
	}
	for _, asked := range b.requests() {
		if strings.Contains(asked, auditToken) && !strings.HasPrefix(asked, "/dashboard#") {
			t.Errorf("the token is in %s", asked)
		}
	}

	for range 30 {
		s.request(t, "GET", "/v1/calls", bearer("guess")...)
	}
	b.fill("#token", auditToken)
	b.press(kb.Enter)
	b.seen("#signin-problem", "Too many wrong tokens came from this address. Try again in")
}

func TestTheDashboardSaysThatAServerWithoutTokensIsClosed(t *testing.T) {
	b := newTab(t, serve(t, nil).url)
	b.failuresMayBeTold()
	b.open("/dashboard#token=any")
	b.seen("#signin-problem", "This needs the audit token, and the server has none: it is closed.")
}
