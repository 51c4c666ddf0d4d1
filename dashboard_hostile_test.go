package ratelimitlog_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/nene2-ft/ratelimitlog"
)

// hostile are keys as a client may send them, all within what a key may be.
var hostile = []string{
	`<img src=x onerror=alert(1)>`, `'"></script><script>alert(1)</script>`, `javascript:alert(1)`, `{{7*7}}${7*7}`, `" onfocus="alert(1)" autofocus="`,
	"\u202egnp.exe", "שלום עולם", strings.Repeat("W", 512), strings.Repeat("é ", 170) + "!", "a\u200bb", "  blanks  ", "&lt;b&gt;", `__proto__`, `constructor`, `%3Cb%3E&a=b#c`, "'; DROP TABLE api_calls; --",
}

func TestTheDashboardShowsWhatClientsSendAsText(t *testing.T) { // case 161
	s := serveDashboard(t, nil)
	for _, key := range hostile {
		s.hit(t, key, "default", 5)
	}
	for _, key := range hostile[:2] {
		s.request(t, "GET", "/ping", "X-Client-Key", "of a ping "+key, "User-Agent", key, "X-Request-ID", "<svg/onload=alert(1)>")
	}
	s.request(t, "GET", `/<svg%20onload=alert(1)>`, "X-Client-Key", "k")
	b := newTab(t, s.url)
	b.look(screen{360, 740, 1, true}, "light")
	elements := func() int {
		return eval[int](b, "document.querySelectorAll('img, svg, iframe, object, script:not([src])').length")
	}
	b.signIn()
	b.seen("#calls tbody", "of a ping "+hostile[0])
	b.seen("#calls tbody", "of a ping "+hostile[1])
	b.seen("#calls tbody", "<svg/onload=alert(1)>")
	if n := elements(); n != 0 {
		t.Errorf("%d elements were made of keys", n)
	}
	wantNoSidewaysScroll(b)
	for i, key := range hostile {
		b.fill("#inspect-key", key)
		b.press(kb.Enter)
		shown := key
		for _, unseen := range []string{"\u202e", "\u200b"} {
			shown = strings.ReplaceAll(shown, unseen, fmt.Sprintf("U+%04X", []rune(unseen)[0]))
		}
		b.wait("document.querySelector('#explain-title').textContent === %q + ' under default' && document.querySelector('#words').textContent.includes('was refused at') && document.querySelector('#history .summary').textContent.includes('2 were refused')", shown)
		if i == 0 || i == 7 {
			wantNoSidewaysScroll(b)
		}
		b.do(chromedp.Reload()) // the address leads to the same
		b.wait("document.querySelector('#explain-title').textContent === %q + ' under default'", shown)
		if n := elements(); n != 0 {
			t.Errorf("%q: %d elements were made of it", key, n)
		}
		b.fill("#f-key", key)
		b.press(kb.Enter)
		b.wait("document.querySelectorAll('#calls tbody tr').length > 0 && [...document.querySelectorAll('#calls tbody tr')].every(r => r.cells[2].textContent === %q)", shown)
	}
}

func wantNoSidewaysScroll(b *tab) {
	b.t.Helper()
	if wide := eval[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		b.t.Errorf("the page is %d pixels too wide: %s", wide, eval[string](b, `[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest('.chart') && !e.closest('.scroll')).map(e => e.tagName + '#' + e.id + '.' + e.className).slice(0, 8).join(' ')`))
	}
}

// The policy of the page lets nothing run that is not a file of the server's, and the
// page has nothing that would need more.
func TestTheDashboardsPolicyIsStrict(t *testing.T) { // case 161
	s := serveDashboard(t, nil)
	a := s.request(t, "GET", "/dashboard")
	a.wantHeader(t, "Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	a.wantHeader(t, "X-Content-Type-Options", "nosniff")
	a.wantHeader(t, "Referrer-Policy", "no-referrer")
	for _, inline := range []string{`(?i)\son[a-z]+\s*=`, `(?i)\sstyle\s*=`, `(?i)<style`, `(?i)<script(?:\s+(?:defer|type="module"))*\s*>`, `(?i)javascript:`, `(?i)(?:src|href)="(?:https?:)?//`} {
		if found := regexp.MustCompile(inline).FindString(a.body); found != "" {
			t.Errorf("the page has %q", found)
		}
	}
	for _, src := range regexp.MustCompile(`(?:src|href)="(dashboard/[^"]+)"`).FindAllStringSubmatch(a.body, -1) {
		file := s.request(t, "GET", "/"+src[1])
		if file.status != 200 || file.header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d", src[1], file.status)
		}
		if strings.HasPrefix(src[1], "dashboard/uplot") {
			continue
		}
		for _, sink := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"} {
			if strings.Contains(file.body, sink) {
				t.Errorf("%s has %s", src[1], sink)
			}
		}
	}
}

func TestTheDashboardShowsNoKeyThatTheServerHashes(t *testing.T) { // case 164
	file := secretFile(t, secret)
	s := serveDashboard(t, func(c *ratelimitlog.Config) { c.HashKeys = file })
	s.hit(t, rawKey, "default", 6)
	hashed := hashedKey(secret, rawKey)
	b := newTab(t, s.url)
	b.signIn()
	b.seen("#keys tbody", hashed)
	b.fill("#inspect-key", rawKey)
	b.press(kb.Enter)
	b.seen("#explain-title", hashed+" under default")
	b.wait("document.querySelector('#history .summary').textContent.includes('3 were refused')")
	b.fill("#f-key", rawKey)
	b.click("#filter [type=submit]")
	b.wait("location.hash.includes('f.key=hmac')")
	b.seen("#calls tbody", hashed)
	wantNoRawKey(t, "the page", eval[string](b, "document.documentElement.outerHTML + document.body.innerText + location.href + JSON.stringify(sessionStorage) + [...document.querySelectorAll('input')].map(f => f.value).join(' ')"))
}
