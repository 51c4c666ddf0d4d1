package main

import (
	"fmt"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// parseTime reads a time: as it is (RFC 3339), by the local clock, or how long before
// now it was, as [domain.ParseDuration] reads it. "" is the zero time. field is what the
// command calls it.
func parseTime(field, text string, now time.Time) (time.Time, error) {
	t, _, err := parseMoment(field, text, now)
	return t, err
}

// parseMoment is parseTime, and tells whether a whole minute is meant: seconds are left
// out.
func parseMoment(field, text string, now time.Time) (t time.Time, minute bool, err error) {
	if text == "" {
		return t, false, nil
	}
	t, ok := domain.ParseTime(text)
	if !ok {
		t, ok = domain.ParseMinute(text)
		minute = ok
	}
	if !ok {
		t, minute, ok = parseLocal(text, now)
	}
	if !ok {
		ago, err := domain.ParseDuration(text)
		if err != nil {
			return t, false, &domain.InvalidError{Field: field, Reason: fmt.Sprintf("is %q, which is neither like 2026-01-01T00:00:00Z or 14:03 nor, as so long ago, like 90s, 1h30m or 2d", text)}
		}
		t = now.Add(-ago)
	}
	return t, minute, domain.CheckTime(field, t)
}

// parseLocal reads a time by the clock of now's location. One without a date is the
// last that was not in the future.
func parseLocal(text string, now time.Time) (t time.Time, minute, ok bool) {
	for _, layout := range []string{"15:04", "15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05"} {
		t, err := time.ParseInLocation(layout, text, now.Location())
		if err != nil || len(text) != len(layout) { // a digit or a fraction is missing or too much
			continue
		}
		if len(layout) < len(time.DateOnly) {
			y, m, d := now.Date()
			today := func(d int) time.Time {
				return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			}
			if t = today(d); t.After(now) {
				t = today(d - 1)
			}
		}
		return t, layout[len(layout)-3:] != ":05", true
	}
	return time.Time{}, false, false
}
