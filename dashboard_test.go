package ratelimitlog_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp/kb"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
)

// signIn opens the dashboard with the audit token and waits until it is filled.
func (b *tab) signIn() {
	b.t.Helper()
	b.open("/dashboard#token=" + auditToken)
	b.settled()
}

// settled waits until every panel has been filled.
func (b *tab) settled() {
	b.t.Helper()
	b.wait("!document.querySelector('#board').hidden && !document.querySelector('#board [aria-busy=true]') && !document.querySelector('#banner').textContent")
}

// seen waits until an element shows a text.
func (b *tab) seen(selector, text string) {
	b.t.Helper()
	b.wait("document.querySelector(%[1]q)?.offsetParent && document.querySelector(%[1]q).innerText.includes(%[2]q)", selector, text)
}

// column is what the cells of a column of a table show, from the first row on.
func (b *tab) column(table string, i int) []string {
	b.t.Helper()
	return eval[[]string](b, fmt.Sprintf("[...document.querySelectorAll(%q)].map(row => row.cells[%d].textContent.trim())", table+" tbody tr", i))
}

// drawn reports whether the chart of a panel has a colour of the page's style.
func (b *tab) drawn(panel, colour string) bool {
	b.t.Helper()
	return eval[bool](b, fmt.Sprintf(`{
		const canvas = document.querySelector(%q + ' canvas'), context = canvas.getContext('2d', {willReadFrequently: true})
		const wanted = getComputedStyle(document.documentElement).getPropertyValue(%q).match(/[0-9a-f]{2}/g).map(hex => parseInt(hex, 16))
		const {data} = context.getImageData(0, 0, canvas.width, canvas.height)
		let found = false
		for (let i = 0; i < data.length && !found; i += 4) found = data[i + 3] > 200 && wanted.every((n, j) => Math.abs(n - data[i + j]) < 16)
		found
	}`, panel, colour))
}

// serveDashboard runs a server for a browser: its clock runs, and the windows are so long
// that none ends in a test.
func serveDashboard(t *testing.T, change func(*ratelimitlog.Config)) *service {
	t.Helper()
	s := servePoliciesWith(t, `policies:
  default: {limit: 3, window: 1d}
  login: {limit: 5, window: 1d}
  dark: {limit: 1, window: 1d, shadow: true}
  sampled: {limit: 9, window: 1d, audit: {sample: 0.5}}
`, func(c *ratelimitlog.Config) {
		c.Now, c.AuditToken = time.Now, auditToken
		if change != nil {
			change(c)
		}
	})
	if s.config.AuditToken != "" {
		s.rulesInLog(t) // so that what a test does is newest
	}
	return s
}

// hit hits a policy n times.
func (s *service) hit(t testing.TB, key, policy string, n int) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"key": key, "policies": []string{policy}})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if a := s.post(t, "/v1/hits", string(body)); a.status != 200 && a.status != 429 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
}

func TestTheDashboardTellsWhoWasRefusedMostByWhatAndUntilWhen(t *testing.T) {
	s := serveDashboard(t, nil)
	s.hit(t, "alice", "default", 9) // 3 allowed, 6 refused
	s.hit(t, "mallory", "login", 25)
	s.hit(t, "busy", "login", 5)
	s.hit(t, "guest", "dark", 4)
	b := newTab(t, s.url)
	call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kathmandu"})
	b.signIn()
	b.want("document.querySelector('#zone').textContent.match(/Asia.Kath?mandu, now UTC.05:45/)")
	b.seen("#refused-sum", "29")
	b.seen("#allowed-sum", "14")
	if !b.drawn("#throughput", "--allowed") || !b.drawn("#throughput", "--refused") {
		t.Error("the throughput is not drawn")
	}
	b.want("document.querySelector('#throughput .chart').ariaLabel.includes('29 refused')")
	for selector, want := range map[string][]string{"#policies": {"login", "default", "dark in shadow: may have passed"}, "#keys": {"mallory", "alice", "guest"}} {
		if got := b.column(selector, 0); strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("%s: %q, want %q", selector, got, want)
		}
	}
	if got := b.column("#keys", 1); got[0] != "20" {
		t.Errorf("refused: %q", got)
	}
	b.seen("#keys .shadows", "policies in shadow")
	b.choose("#keys-order", "units")
	b.seen("#keys tbody", "busy")
	b.choose("#scope-policy", "dark")
	b.wait("!document.querySelector('#keys tbody').innerText.includes('mallory') && document.querySelector('#keys tbody').innerText.includes('guest')")
	b.choose("#scope-policy", "")
	b.seen("#keys tbody", "mallory")

	b.click("#keys tbody tr button") // mallory's
	b.seen("#explain-title", "mallory under login")
	b.want("document.activeElement.id === 'inspect-title'")
	b.seen("#words", "mallory was refused at")
	b.seen("#words", "by policy login: 5 of 5 units")
	e := s.explain(t, "key=mallory&policy=login")
	passes := instant(t, *e.Passes).In(time.FixedZone("", (5*60+45)*60))
	b.wait("/^Passes again at .*%s \\(UTC.05:45\\), in \\d+ (h|min|s).*, if nobody else asks first.$/.test(document.querySelector('#again').textContent)", passes.Format("15:04:05"))
	b.seen("#history-title", "History of mallory under login")
	b.seen("#history .summary", "25 requests")
	b.seen("#history .summary", "20 were refused")
	b.seen("#history .summary", "5 of 5 units were used in a window of fixed 1d.")
	for what, colour := range map[string]string{"what is used": "--allowed", "the limit": "--limit", "what was refused": "--refused"} {
		if !b.drawn("#history", colour) {
			t.Errorf("%s is not drawn in the history", what)
		}
	}
	b.click("#history summary")
	b.seen("#history table", "refused")
	if a := b.address(); a.Fragment == "" || strings.Contains(a.String(), auditToken) || !strings.Contains(a.Fragment, "key=mallory") {
		t.Errorf("the address is %s", a)
	}

	// The address can be kept: it shows the same, and back goes back.
	other := newTab(t, s.url)
	other.open("/dashboard#" + b.address().Fragment + "&token=" + auditToken)
	other.seen("#explain-title", "mallory under login")
	eval[bool](b, "history.back(), true")
	b.wait("document.querySelector('#explain').hidden")
	b.want("!location.hash.includes('mallory')")
}

func TestTheDashboardIsLiveUntilItIsPaused(t *testing.T) {
	s := serveDashboard(t, nil)
	s.hit(t, "first", "default", 1)
	b := newTab(t, s.url, fast, "document.addEventListener('DOMContentLoaded', () => document.documentElement.dataset.loads = 1)")
	b.signIn()
	eval[bool](b, "document.documentElement.dataset.same = 'page', true")
	b.seen("#calls tbody tr:first-child", "first")
	s.hit(t, "second", "default", 7)
	b.seen("#calls tbody", "second")
	b.seen("#keys tbody tr:first-child", "second")
	b.seen("#policies tbody tr:first-child", "default")
	b.seen("#refused-sum", "4")
	b.wait("document.querySelector('#refused-now').textContent !== '0/s'")
	b.want("document.documentElement.dataset.same === 'page'")

	// What has the focus keeps it.
	s.hit(t, "third", "default", 5)
	b.seen("#keys tbody tr:nth-child(2)", "third")
	eval[bool](b, "document.querySelector('#keys tbody tr:nth-child(2) button').focus(), true")
	s.hit(t, "third", "default", 9)
	b.seen("#keys tbody tr:first-child", "third")
	b.want("document.activeElement.textContent === 'third'")

	b.click("#pause")
	b.want("document.querySelector('#pause').ariaPressed === 'true' && document.querySelector('#freshness').textContent.startsWith('Paused')")
	eval[bool](b, "new Promise(done => setTimeout(done, 2000, true))") // until what is under way is answered
	before := len(b.requests())
	s.hit(t, "fourth", "default", 1)
	eval[bool](b, "new Promise(done => setTimeout(done, 20000, true))") // ten times the pace
	if asked := b.requests()[before:]; len(asked) > 0 {
		t.Errorf("paused, the page asked %q", asked)
	}
	b.want("!document.querySelector('#calls').innerText.includes('fourth')")
	b.click("#pause")
	b.seen("#calls tbody", "fourth")
}

func TestTheDashboardsRequestsNeverOverlap(t *testing.T) {
	s := serveDashboard(t, nil)
	s.hit(t, "k", "default", 1)
	b := newTab(t, s.url, fast, `{
		const real = fetch, under = {}
		most = 0
		fetch = async (address, options) => {
			const key = address.split('?')[0] + (/by=[a-z]+/.exec(address) ?? '') + (/order=[a-z]+/.exec(address) ?? '') + (/limit=\d+/.exec(address) ?? '') + (/to=/.exec(address) ?? '')
			under[key] = (under[key] ?? 0) + 1
			most = Math.max(most, under[key])
			await new Promise(done => setTimeout(done, 4000)) // twice the pace
			try { return await real(address, options) } finally { under[key]-- }
		}
	}`)
	b.signIn()
	s.hit(t, "another", "default", 1)
	b.seen("#calls tbody", "another")
	// Two panels ask which policies refuse.
	if most := eval[int](b, "most"); most < 1 || most > 2 {
		t.Errorf("%d requests of a kind at a time", most)
	}
}

func TestTheDashboardGoesByTheServersClock(t *testing.T) {
	s := serveDashboard(t, nil)
	s.hit(t, "k", "default", 5)
	for _, hours := range []int{-30, 30} { // that the browser's is ahead
		b := newTab(t, s.url, fmt.Sprintf("{const real = Date.now; Date.now = () => real() + %d * 3600e3}", hours))
		b.signIn()
		b.want("document.querySelector('#refused-sum').textContent === '2'")
		b.seen("#keys tbody", "k")
		b.want("document.querySelector('#allowed-now').textContent !== '0/s'")
	}
}

// A refusal early in a sliding window is one by what was used in the window before.
func TestTheDashboardsHistoryShowsWhatASlidingWindowCarriesOver(t *testing.T) {
	store := newSlow(0)
	s := serveOn(t, store.stores(), func(c *ratelimitlog.Config) {
		c.Now, c.AuditToken, c.Window, c.Limit = time.Now, auditToken, "sliding 1h", "5"
	})
	start := time.Now().UTC().Truncate(time.Hour)
	call := domain.Call{Kind: domain.CallHit, Policy: "default", Key: "alice", Cost: 1, Hits: 1, Limit: 5, Schedule: "sliding 1h", Origin: domain.Origin{Method: "GET", Path: "/ping"}}
	var calls []domain.Call
	for i := range 5 {
		c := call
		c.At, c.WindowStart, c.Allowed, c.Count = start.Add(time.Duration(i-10)*time.Second), start.Add(-time.Hour), true, int64(i+1)
		calls = append(calls, c)
	}
	refused := call
	refused.At, refused.WindowStart, refused.Count, refused.Refused = start, start, 1, 1
	if err := store.Append(t.Context(), append(calls, refused)); err != nil {
		t.Fatal(err)
	}
	b := newTab(t, s.url)
	b.signIn()
	b.fill("#inspect-key", "alice")
	b.press(kb.Enter)
	b.seen("#history .summary", "5 of 5 units were used in a window of sliding 1h, 5 of them carried over from the window before.")
	b.seen("#words", "5 of 5 units were used: 0 in the window")
	b.seen("#calls tbody", "0 + carried of 5")
	if got := b.column("#history", 2); len(got) != 6 || got[0] != "5" || got[5] != "1" {
		t.Errorf("used after each call: %q", got)
	}
}

func TestTheDashboardOfAnEmptyLogSaysHowToBegin(t *testing.T) {
	s := serveDashboard(t, nil)
	b := newTab(t, s.url, fast)
	b.signIn()
	b.seen("#empty", "Nothing has been asked yet")
	b.seen("#curl", "curl -i -H 'X-Client-Key: alice' "+s.url+"/ping")
	b.seen("#policies .none", "Nobody asked in the last hour.")
	b.seen("#keys .none", "No key was refused in the last hour.")
	// What it says stays where it is while the figures are asked for again.
	eval[bool](b, "window.blinks = 0, new MutationObserver(() => window.blinks++).observe(document.querySelector('#empty'), {attributes: true}), true")
	asked := len(b.requests())
	eventually(t, "the figures are asked for again", func() bool { return len(b.requests()) > asked+20 })
	b.want("window.blinks === 0")
	s.ping(t, "alice")
	b.wait("document.querySelector('#empty').hidden && document.querySelector('#allowed-sum').textContent === '1'")
}
