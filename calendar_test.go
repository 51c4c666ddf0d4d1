package ratelimitlog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog"
)

func TestCalendarQuotasTellWhenTheZoneBeginsTheNextPeriod(t *testing.T) { // cases 13, 14, 16, 17, 20, 22
	for _, c := range []struct {
		name, window  string
		limit         int    // so many calls at first are allowed
		first, beyond string // the one beyond the limit is refused
		retryAfter    int
		start, end    string
	}{
		// Expected values: Python's zoneinfo with tzdata 2025b, the first second whose
		// civil date in the zone is in the period.
		{"January has 31 days", "calendar month", 5, "2026-01-01T00:00:01Z", "2026-01-31T12:00:00Z", 43200, "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"a leap day belongs to February", "calendar month UTC", 1, "2028-02-01T00:00:00Z", "2028-02-29T12:00:00Z", 43200, "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"a leap year has 366 days", "calendar year UTC", 1, "2028-01-01T00:00:00Z", "2028-12-31T12:00:00Z", 43200, "2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"},
		{"a month in Tokyo", "calendar month Asia/Tokyo", 1, "2026-03-15T12:00:00+09:00", "2026-03-15T12:00:00+09:00", 1425600, "2026-02-28T15:00:00Z", "2026-03-31T15:00:00Z"},
		{"a month in New York", "calendar month America/New_York", 1, "2026-03-15T12:00:00-04:00", "2026-03-15T12:00:00-04:00", 1425600, "2026-03-01T05:00:00Z", "2026-04-01T04:00:00Z"},
		{"a day in Shanghai", "calendar day Asia/Shanghai", 2, "2026-01-01T23:50:00+08:00", "2026-01-01T23:50:00+08:00", 600, "2025-12-31T16:00:00Z", "2026-01-01T16:00:00Z"},
		{"its last second", "calendar day Asia/Shanghai", 2, "2026-01-01T23:50:00+08:00", "2026-01-01T23:59:59+08:00", 1, "2025-12-31T16:00:00Z", "2026-01-01T16:00:00Z"},
		{"clocks go back", "calendar day America/Los_Angeles", 1, "2026-11-01T00:30:00-07:00", "2026-11-01T00:30:00-07:00", 88200, "2026-11-01T07:00:00Z", "2026-11-02T08:00:00Z"},
		{"clocks went back", "calendar day America/Los_Angeles", 1, "2026-11-01T00:30:00-07:00", "2026-11-01T23:30:00-08:00", 1800, "2026-11-01T07:00:00Z", "2026-11-02T08:00:00Z"},
		{"clocks go forward", "calendar day America/Los_Angeles", 1, "2026-03-08T00:30:00-08:00", "2026-03-08T00:30:00-08:00", 81000, "2026-03-08T08:00:00Z", "2026-03-09T07:00:00Z"},
		{"clocks went forward", "calendar day America/Los_Angeles", 1, "2026-03-08T00:30:00-08:00", "2026-03-08T23:30:00-07:00", 1800, "2026-03-08T08:00:00Z", "2026-03-09T07:00:00Z"},
		{"the day before one without midnight", "calendar day Africa/Cairo", 1, "2026-04-23T12:00:00+02:00", "2026-04-23T23:59:00+02:00", 60, "2026-04-22T22:00:00Z", "2026-04-23T22:00:00Z"},
		{"a day without midnight", "calendar day Africa/Cairo", 1, "2026-04-24T01:00:00+03:00", "2026-04-24T01:00:00+03:00", 82800, "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"},
		{"a week begins on Monday", "calendar week UTC", 1, "2026-01-05T00:00:00Z", "2026-01-11T23:59:59Z", 1, "2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"},
		{"a week with a change", "calendar week Europe/Berlin", 1, "2026-03-23T00:00:00+01:00", "2026-03-29T12:00:00+02:00", 43200, "2026-03-22T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"three a day", "calendar day", 3, "2026-01-01T09:00:00Z", "2026-01-01T18:00:00Z", 21600, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
		// No calendar: 604800 seconds from the epoch, which was a Thursday.
		{"a window of 7 days begins on Thursday", "7d", 1, "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z", 259200, "2026-01-01T00:00:00Z", "2026-01-08T00:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(config *ratelimitlog.Config) { config.Limit, config.Window = fmt.Sprint(c.limit), c.window })
			end := instant(t, c.end)
			hit := func(at time.Time) answer {
				t.Helper()
				s.clock.advance(at.Sub(s.clock.now()))
				return s.post(t, "/v1/hits", `{"key":"k","policies":["default"]}`)
			}
			window := func(count, refused, remaining int, start, end string) string {
				return fmt.Sprintf(`"count":%d,"refused":%d,"remaining":%d,"window_start":"%s","window_end":"%s"`, count, refused, remaining, start, end)
			}
			for i := 1; i <= c.limit; i++ {
				if a := hit(instant(t, c.first)); a.status != 200 || !strings.Contains(a.body, window(i, 0, c.limit-i, c.start, c.end)) {
					t.Errorf("call %d at %s: %d %s", i, c.first, a.status, a.body)
				}
			}
			a := hit(instant(t, c.beyond))
			if a.status != 429 || !strings.Contains(a.body, window(c.limit+1, 1, 0, c.start, c.end)) {
				t.Errorf("beyond the limit at %s: %d %s, want the window [%s, %s)", c.beyond, a.status, a.body, c.start, c.end)
			}
			a.wantHeader(t, "Retry-After", fmt.Sprint(c.retryAfter))
			a.wantHeader(t, "X-RateLimit-Reset", fmt.Sprint(end.Unix()))

			a = hit(end.Add(-time.Millisecond))
			if a.status != 429 {
				t.Errorf("a millisecond before the end: %d %s", a.status, a.body)
			}
			a.wantHeader(t, "Retry-After", "1")
			if a := hit(end); a.status != 200 || !strings.Contains(a.body, fmt.Sprintf(`"count":1,"refused":0,"remaining":%d,"window_start":"%s"`, c.limit-1, c.end)) {
				t.Errorf("at the end: %d %s", a.status, a.body)
			}
		})
	}
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
