package ratelimitlog_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

func TestTheDashboardHasNoFindingsOfAxe(t *testing.T) {
	const at = "interfaces/dashboard/node_modules/axe-core/axe.min.js"
	axe, err := os.ReadFile(at)
	if err != nil {
		servicetest.Missing(t, "there is no axe-core to test with (interfaces/dashboard/vendor.sh installs it): %v", err)
	}
	s := serveDashboard(t, nil)
	s.hit(t, "alice", "default", 9)
	s.hit(t, "guest", "dark", 4)
	s.hit(t, "k", "sampled", 20)
	for _, scheme := range []string{"light", "dark"} {
		for name, screen := range map[string]screen{"desktop": desktop, "phone": phone} {
			t.Run(scheme+" "+name, func(t *testing.T) {
				b := newTab(t, s.url, string(axe))
				b.look(screen, scheme)
				check := func(state string) {
					t.Helper()
					for _, finding := range eval[[]string](b, `axe.run().then(r => r.violations.map(v => v.impact + ' ' + v.id + ': ' + v.help + ' ' + v.nodes.map(n => n.html + ' ' + n.failureSummary).join(' | ')))`) {
						t.Errorf("%s: %s", state, finding)
					}
					wantNoSidewaysScroll(b)
				}
				b.open("/dashboard")
				b.wait("document.activeElement.id === 'token'")
				check("sign-in")
				b.failuresMayBeTold()
				b.fill("#token", "wrong")
				b.press(kb.Enter)
				b.seen("#signin-problem", "not right")
				check("wrong token")
				b.fill("#token", auditToken)
				b.press(kb.Enter)
				b.settled()
				check("board")
				b.click("#keys tbody button")
				b.wait("document.querySelector('#again').textContent && document.querySelector('#history .summary').textContent")
				eval[bool](b, "document.querySelectorAll('details').forEach(d => d.open = true), document.querySelector('#pause').click(), true")
				eval[bool](b, "document.querySelector('#f-from').value = '2021-01-01T00:00', document.querySelector('#f-to').value = '2020-01-01T00:00', document.querySelector('#filter').requestSubmit(), true")
				b.seen("#calls .problem", "to must be")
				eval[bool](b, "document.querySelector('#banner').textContent = 'The server answers 503', document.documentElement.classList.add('old'), document.querySelector('#empty').hidden = false, true")
				check("everything open")
				light := eval[bool](b, "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(n => n > 200)")
				if light != (scheme == "light") {
					t.Errorf("the background is %s", eval[string](b, "getComputedStyle(document.body).backgroundColor"))
				}
			})
		}
	}
}

// A walk with the keyboard alone: sign in, take the first key, filter, pause.
func TestTheDashboardNeedsNoMouse(t *testing.T) {
	s := serveDashboard(t, nil)
	s.hit(t, "alice", "default", 9)
	b := newTab(t, s.url)
	b.open("/dashboard")
	b.wait("document.activeElement.id === 'token'")
	for _, r := range auditToken {
		b.press(string(r))
	}
	b.press(kb.Enter)
	b.settled()
	// walk presses Tab until what has the focus is what a selector names, and wants each
	// step to be seen.
	walk := func(selector string) {
		t.Helper()
		for range 80 {
			b.press(kb.Tab)
			focused := eval[string](b, `{const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect(); e === document.body ? 'body' : s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 && r.width > 0 ? '' : e.outerHTML}`)
			if focused == "body" {
				continue
			}
			if focused != "" {
				t.Errorf("the focus is not seen on %s", focused)
			}
			if eval[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
				return
			}
		}
		t.Fatalf("Tab does not come to %s", selector)
	}
	walk("#span")
	b.press(kb.ArrowDown)
	b.seen("#throughput .summary", "last 6 hours")
	walk("#throughput summary")
	b.press(kb.Enter)
	b.seen("#throughput table", "Begins")
	walk("#keys tbody button")
	b.press(kb.Enter)
	b.seen("#explain-title", "alice under default")
	b.want("document.activeElement.id === 'inspect-title'")
	walk("#f-key")
	for _, r := range "nobody" {
		b.press(string(r))
	}
	b.press(kb.Enter)
	b.seen("#calls .none", "No call is like that.")
	walk("#filter [type=reset]")
	b.press(kb.Enter)
	b.seen("#calls tbody", "alice")
	walk("#calls tbody button")
	b.press(kb.Enter)
	b.want("document.activeElement.id === 'inspect-title'")
	walk("#skip") // around once
	b.seen("#skip", "Skip to the content")
	walk("#pause")
	b.press(" ")
	b.want("document.querySelector('#pause').ariaPressed === 'true'")
	walk("#signout")
	b.press(kb.Enter)
	b.wait("document.activeElement.id === 'token'")
}
