package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestATimeIsWrittenOutOrByTheClockOrSoLongAgo(t *testing.T) {
	kolkata, err := domain.Zone("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 17, 30, 0, 0, kolkata)
	for text, want := range map[string]string{
		"": "0001-01-01T00:00:00Z", "0s": "2026-03-01T12:00:00Z", "90s": "2026-03-01T11:58:30Z", "1h30m": "2026-03-01T10:30:00Z", "2d": "2026-02-27T12:00:00Z",
		"2026-01-01T00:00:00Z": "2026-01-01T00:00:00Z", "2026-01-01T09:00:00.5+09:00": "2026-01-01T00:00:00.5Z",
		"14:03:20": "2026-03-01T08:33:20Z", "17:30:00": "2026-03-01T12:00:00Z", "17:30:01": "2026-02-28T12:00:01Z", "2026-01-01 14:03:20": "2026-01-01T08:33:20Z",
		// A whole minute each.
		"14:03": "2026-03-01T08:33:00Z minute", "17:30": "2026-03-01T12:00:00Z minute", "17:31": "2026-02-28T12:01:00Z minute", "00:00": "2026-02-28T18:30:00Z minute",
		"2026-01-01 14:03": "2026-01-01T08:33:00Z minute", "2026-01-01T14:03Z": "2026-01-01T14:03:00Z minute", "2026-01-01T14:03+09:00": "2026-01-01T05:03:00Z minute",
	} {
		got, minute, err := parseMoment("at", text, now)
		told := got.UTC().Format(time.RFC3339Nano)
		if minute {
			told += " minute"
		}
		if err != nil || told != want {
			t.Errorf("%q is %s, %v; want %s", text, told, err, want)
		}
	}
	for _, text := range []string{
		"-1h", "1.5h", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00", "2026-02-30T00:00:00Z", " 1h", "1h ", "h", "99999999d",
		"4:03", "14:3", "14:03:2", "24:00", "14:60", "14:03:20.5", "14:03 ", "2026-02-30 14:03", "0000-01-01 14:03", "0001-01-01T00:00:00Z", "1969-12-31T23:59Z", "9999-01-01T00:00:00Z", "30000d",
	} {
		if got, err := parseTime("from", text, now); !errors.As(err, new(*domain.InvalidError)) || !strings.HasPrefix(err.Error(), "from is ") {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}
