package ratelimitlog_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

func TestTheDashboardOutlivesItsStoreAndItsServer(t *testing.T) {
	store := servicetest.NewPostgresServer(t)
	store.Start()
	s := serveDashboard(t, func(c *ratelimitlog.Config) { c.DSN, c.Migrate = store.DSN(), true })
	s.hit(t, "before", "default", 5)
	b := newTab(t, s.url, fast)
	b.signIn()
	b.seen("#keys tbody", "before")
	b.failuresMayBeTold()
	store.Kill()
	b.wait("/^The server answers 503: .*What is shown is old, of \\d\\d:\\d\\d:\\d\\d. The page keeps asking.$/.test(document.querySelector('#banner').textContent)")
	b.want("document.documentElement.classList.contains('old') && document.querySelector('#freshness').textContent.startsWith('Old: of')")
	b.want("document.querySelector('#keys tbody').innerText.includes('before') && document.querySelector('#calls tbody').innerText.includes('before')")
	late := newTab(t, s.url, fast) // opened meanwhile
	late.failuresMayBeTold()
	late.open("/dashboard#token=" + auditToken)
	late.wait("document.querySelector('#banner').textContent.startsWith('The server answers 503: ') && !document.querySelector('#board').hidden")
	searching := newTab(t, s.url, fast)
	searching.failuresMayBeTold()
	searching.open("/dashboard#f.path=/v1/hits&token=" + auditToken)
	searching.seen("#calls .problem", "say a time or a key too") // which might be why
	store.Start()
	late.settled()
	late.seen("#keys tbody", "before")
	searching.settled()
	searching.seen("#calls tbody", "before")
	searching.want("!document.querySelector('#calls .problem').textContent")
	b.settled()
	b.want("!document.documentElement.classList.contains('old') && document.querySelector('#freshness').textContent.startsWith('Live')")
	for s.post(t, "/v1/hits", `{"key":"after","policies":["default"]}`).status == 503 {
		time.Sleep(10 * time.Millisecond)
	}
	b.seen("#calls tbody", "after")
	s.stop()
	b.wait("document.querySelector('#banner').textContent.startsWith('The server cannot be reached. What is shown is old')")
	b.want("document.querySelector('#calls tbody').innerText.includes('after')")
}

func TestTheDashboardSaysWhereTheLogIsPartial(t *testing.T) {
	s := serveDashboard(t, nil)
	s.hit(t, "k", "sampled", 40)
	b := newTab(t, s.url)
	b.signIn()
	b.seen("#throughput .partial", "Partial")
	b.seen("#keys .partial", "Partial")
}

func TestTheDashboardWorksBelowAProxysPrefix(t *testing.T) {
	s := serveDashboard(t, nil)
	s.hit(t, "k", "default", 5)
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.StripPrefix("/limits", httputil.NewSingleHostReverseProxy(at)))
	defer proxy.Close()
	b := newTab(t, proxy.URL+"/limits")
	b.signIn()
	b.seen("#keys tbody", "k")
	b.want("document.querySelector('#throughput canvas')")
}

// RATELIMITLOG_TEST_DASHBOARD names an address with a token, as serve --dev prints it, of a
// server whose dashboard is measured.
func TestTheDashboardPaintsAtOnce(t *testing.T) {
	address := os.Getenv("RATELIMITLOG_TEST_DASHBOARD")
	if address == "" {
		t.Skip("RATELIMITLOG_TEST_DASHBOARD names no address")
	}
	base, _, _ := strings.Cut(address, "/dashboard")
	for range 5 {
		t.Run("", func(t *testing.T) { // whose tab is closed before the next
			b := newTab(t, base)
			b.open(strings.TrimPrefix(address, base))
			b.wait("performance.getEntriesByName('first-contentful-paint').length")
			painted := eval[float64](b, "performance.getEntriesByName('first-contentful-paint')[0].startTime")
			b.settled()
			filled := eval[float64](b, "performance.now()")
			requests := eval[[]string](b, "performance.getEntriesByType('resource').filter(e => e.name.includes('/v1/')).map(e => `${e.name.replace(/.*\\/v1/, '/v1')} ${Math.round(e.duration)} ms`)")
			t.Logf("first contentful paint %.0f ms, all panels %.0f ms\n\t%s", painted, filled, strings.Join(requests, "\n\t"))
			if painted > 500 {
				t.Errorf("first paint after %.0f ms", painted)
			}
		})
	}
}
