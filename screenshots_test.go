package ratelimitlog_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
)

const picturePolicies = `policies:
  default: {limit: 60, window: 1m}
  login: {limit: 5, window: 5m}
  search: {limit: 40, window: 1m}
  export: {limit: 3, window: 10m, shadow: true}
routes:
  - {path: /api/search, key: header X-Client-Key, policies: [search]}
`

// caller is somebody whose requests of an hour the pictures show.
type caller struct {
	key, policy, path string
	perMinute         float64
}

var callers = []caller{
	{"acme-web", "default", "/api/orders", 52}, {"acme-mobile", "default", "/api/orders", 38}, {"globex", "search", "/api/search", 47},
	{"initech", "search", "/api/search", 31}, {"203.0.113.77", "login", "/login", 6}, {"198.51.100.4", "login", "/login", 0.7},
	{"umbrella", "default", "/api/stock", 12}, {"hooli-batch", "export", "/api/export", 0.8}, {"stark", "search", "/api/search", 9},
}

// hourOfCalls is what the callers did in the last hour and some minutes, as a server
// would have logged it.
func hourOfCalls(now time.Time) (calls []domain.Call) {
	type state struct {
		start          time.Time
		count, refused int64
	}
	limits := map[string]int64{"default": 60, "login": 5, "search": 40, "export": 3}
	lengths := map[string]time.Duration{"default": time.Minute, "login": 5 * time.Minute, "search": time.Minute, "export": 10 * time.Minute}
	random := rand.New(rand.NewPCG(1, 2))
	states := map[string]*state{}
	for at := now.Add(-65 * time.Minute); at.Before(now); at = at.Add(250 * time.Millisecond) {
		minute := now.Sub(at).Minutes()
		for _, c := range callers {
			rate := c.perMinute * (1 + 0.35*math.Sin(minute/7+float64(len(c.key))))
			if c.key == "203.0.113.77" && minute < 25 && minute > 8 { // an attack
				rate *= 12
			}
			if random.Float64() > rate/240 {
				continue
			}
			start := at.Truncate(lengths[c.policy])
			if c.key == "203.0.113.77" && start.Equal(now.Truncate(lengths[c.policy])) {
				continue // which really asks, below
			}
			s := states[c.key]
			if s == nil || !s.start.Equal(start) {
				s = &state{start: start}
				states[c.key] = s
			}
			allowed := s.count-s.refused < limits[c.policy]
			if s.count++; !allowed {
				s.refused++
			}
			calls = append(calls, domain.Call{
				Kind: domain.CallHit, At: at.Add(time.Duration(random.IntN(250)) * time.Millisecond), Policy: c.policy, Key: c.key, Cost: 1, Hits: 1,
				Allowed: allowed, Shadow: c.policy == "export", Count: s.count, Refused: s.refused, Limit: limits[c.policy], WindowStart: start,
				Schedule: "fixed " + domain.FormatDuration(lengths[c.policy]),
				Origin:   domain.Origin{Method: "GET", Path: c.path, RequestID: fmt.Sprintf("%08x", random.Uint32())},
			})
		}
	}
	return calls
}

// The pictures of the documentation are made by RATELIMITLOG_SCREENSHOTS=docs, the
// directory to put them in.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("RATELIMITLOG_SCREENSHOTS")
	if dir == "" {
		t.Skip("RATELIMITLOG_SCREENSHOTS names no directory")
	}
	s := servePoliciesWith(t, picturePolicies, func(c *ratelimitlog.Config) { c.Now, c.AuditToken = time.Now, auditToken })
	appendCalls(t, s, hourOfCalls(time.Now())...)
	for range 9 { // now, so that somebody is refused
		s.post(t, "/v1/hits", `{"key":"203.0.113.77","policies":["login"]}`)
	}
	for name, picture := range map[string]struct {
		screen
		scheme string
	}{
		"dashboard-light.png":      {screen{1280, 1560, 1, false}, "light"},
		"dashboard-dark-phone.png": {screen{390, 1500, 1.5, true}, "dark"},
	} {
		b := newTab(t, s.url)
		b.look(picture.screen, picture.scheme)
		b.signIn()
		b.click("#keys tbody button")
		b.wait("document.querySelector('#again').textContent && document.querySelector('#history .summary').textContent")
		eval[bool](b, "{scrollTo(0, 0); document.activeElement.blur(); true}")
		b.settled()
		pixels, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
			Format: "png", CaptureBeyondViewport: new(true), Clip: &page.Viewport{Width: float64(picture.width), Height: float64(picture.height), Scale: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), pixels.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
