package main

import (
	"fmt"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// parseTime reads a time: as it is (RFC 3339), or how long before now it was, as
// [domain.ParseDuration] reads it. "" is the zero time.
func parseTime(text string, now time.Time) (t time.Time, err error) {
	if text == "" || t.UnmarshalText([]byte(text)) == nil {
		return t, nil
	}
	ago, err := domain.ParseDuration(text)
	if err != nil {
		return time.Time{}, &domain.InvalidError{Field: "time", Reason: fmt.Sprintf("%q is neither like 2026-01-01T00:00:00Z nor, as so long ago, like 90s, 1h30m or 2d", text)}
	}
	return now.Add(-ago), nil
}
