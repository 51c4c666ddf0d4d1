package main

import (
	"errors"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestATimeIsWrittenOutOrSoLongAgo(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "0s": now, "90s": now.Add(-90 * time.Second), "1h30m": now.Add(-90 * time.Minute), "2d": now.Add(-48 * time.Hour),
		"2026-01-01T00:00:00Z": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), "2026-01-01T09:00:00.5+09:00": time.Date(2026, 1, 1, 0, 0, 0, 5e8, time.UTC),
	} {
		if got, err := parseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"-1h", "1.5h", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "2026-02-30T00:00:00Z", " 1h", "1h ", "h", "99999999d"} {
		if got, err := parseTime(text, now); !errors.As(err, new(*domain.InvalidError)) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}
