package domain

import (
	"fmt"
	"strings"
	"time"
)

// CheckTime reports with an *[InvalidError] a time that no question about the log can
// be about: before 1970, or after the year 9998, which not every store can write down.
// field is what the question calls it. The zero time is refused too: whoever means no
// bound by it does not ask.
func CheckTime(field string, t time.Time) error {
	if year := t.UTC().Year(); year < 1970 || year > 9998 {
		return &InvalidError{field, fmt.Sprintf("is in the year %d, it must be 1970 to 9998", year)}
	}
	return nil
}

// ParseTime reads a time as RFC 3339 writes it, with its offset.
func ParseTime(text string) (t time.Time, ok bool) {
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil && isStrict(text)
}

// isStrict refuses what time.Parse takes and RFC 3339 does not: an hour of one digit, a
// comma in place of the point, and offsets of more than 23 hours or 59 minutes.
func isStrict(text string) bool {
	const hour = len("2026-01-01T")
	if text[hour+2] != ':' || strings.Contains(text, ",") {
		return false
	}
	if strings.HasSuffix(text, "Z") {
		return true
	}
	offset := text[len(text)-len("09:00"):]
	return offset[:2] <= "23" && offset[3:] <= "59"
}

// ParseMinute reads the beginning of a minute, RFC 3339 without seconds, like
// 2026-01-01T14:03Z or 2026-01-01T14:03+09:00.
func ParseMinute(text string) (time.Time, bool) {
	const minute = len("2026-01-01T14:03")
	if len(text) <= minute || strings.IndexByte(":.,", text[minute]) >= 0 {
		return time.Time{}, false
	}
	return ParseTime(text[:minute] + ":00" + text[minute:])
}
