package domain_test

import (
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestHoursAreThoseOfTheZonesClock(t *testing.T) {
	for _, c := range []struct{ zone, at, start, end string }{
		{"UTC", "2026-01-01T00:59:59Z", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"},
		{"UTC", "1969-12-31T23:30:00Z", "1969-12-31T23:00:00Z", "1970-01-01T00:00:00Z"},
		{"Asia/Kolkata", "2026-01-01T00:15:00Z", "2025-12-31T23:30:00Z", "2026-01-01T00:30:00Z"},
		{"Asia/Kathmandu", "2026-01-01T00:15:00Z", "2026-01-01T00:15:00Z", "2026-01-01T01:15:00Z"},
		// Clocks go back from 3 to 2: the hour from 2 comes twice.
		{"Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},
		{"Europe/Berlin", "2026-10-25T01:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"},
		// Half an hour back from 2 to 1:30: the second half of the hour from 1 comes twice.
		{"Australia/Lord_Howe", "2026-04-04T14:45:00Z", "2026-04-04T14:00:00Z", "2026-04-04T15:00:00Z"},
		{"Australia/Lord_Howe", "2026-04-04T15:00:00Z", "2026-04-04T15:00:00Z", "2026-04-04T15:30:00Z"},
		{"Australia/Lord_Howe", "2026-04-04T15:30:00Z", "2026-04-04T15:30:00Z", "2026-04-04T16:30:00Z"},
		// Half an hour forward from 2 to 2:30: the hour from 2 is half of one.
		{"Australia/Lord_Howe", "2026-10-03T15:29:59Z", "2026-10-03T14:30:00Z", "2026-10-03T15:30:00Z"},
		{"Australia/Lord_Howe", "2026-10-03T15:45:00Z", "2026-10-03T15:30:00Z", "2026-10-03T16:00:00Z"},
	} {
		zone, err := domain.Zone(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		hours, err := domain.UsageByHour.Periods(zone)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := time.Parse(time.RFC3339, c.at)
		for range 2 { // the second time from memory
			w := hours(at)
			if start, end := w.Start.Format(time.RFC3339), w.End.Format(time.RFC3339); start != c.start || end != c.end {
				t.Errorf("%s in %s: %s to %s, want %s to %s", c.at, c.zone, start, end, c.start, c.end)
			}
		}
	}
}

func TestPeriodsTileTime(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca"} {
		zone, err := domain.Zone(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range []domain.UsageBy{domain.UsageByHour, domain.UsageByDay, domain.UsageByMonth} {
			periods, err := by.Periods(zone)
			if err != nil {
				t.Fatal(err)
			}
			w := periods(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			for w.Start.Year() < 2027 {
				next := periods(w.End)
				if !next.Start.Equal(w.End) || !next.End.After(next.Start) || periods(w.End.Add(-time.Second)) != w {
					t.Fatalf("%ss in %s: after %v comes %v", by, name, w, next)
				}
				w = next
			}
		}
	}
}

func TestWhatIsNoZoneAndNoTimeIsRefused(t *testing.T) {
	for _, name := range []string{"", "Local", "Mars/Olympus", "../UTC", "posix/UTC", "\x00"} {
		if zone, err := domain.Zone(name); err == nil {
			t.Errorf("%q is the zone %s", name, zone)
		}
	}
	if _, err := domain.UsageByKey.Periods(time.UTC); err == nil {
		t.Error("keys have periods")
	}
	if _, err := domain.UsageByDay.Periods(time.FixedZone("X", 3600)); err == nil {
		t.Error("a zone of nobody's has days")
	}
}
