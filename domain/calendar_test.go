package domain_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func calendar(t interface{ Fatal(...any) }, unit domain.CalendarUnit, zone string) domain.Schedule {
	s, err := domain.Calendar(unit, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCalendarWindowsAreCivilPeriods(t *testing.T) {
	for _, c := range []struct {
		name, schedule, at, start, end string
		left                           int64
	}{
		// Cases 13 and 14: months and years end on the calendar's edges.
		{"January has 31 days", "calendar month", "2026-01-31T12:00:00Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", 43200},
		{"March", "calendar month", "2026-03-15T10:00:00Z", "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z", 0},
		{"a leap day belongs to February", "calendar month", "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z", 0},
		{"a leap year has 366 days", "calendar year", "2028-12-31T23:59:59Z", "2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z", 1},
		{"a century that is no leap year", "calendar month", "2100-02-28T12:00:00Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z", 0},
		{"before 1970", "calendar year", "1969-12-31T23:59:50Z", "1969-01-01T00:00:00Z", "1970-01-01T00:00:00Z", 10},
		// Case 16: the zone of the policy, not of the machine.
		{"a day in Shanghai", "calendar day Asia/Shanghai", "2026-01-01T23:50:00+08:00", "2025-12-31T16:00:00Z", "2026-01-01T16:00:00Z", 600},
		// Case 17: days of 25 and 23 hours.
		{"clocks go back", "calendar day America/Los_Angeles", "2026-11-01T00:30:00-07:00", "2026-11-01T07:00:00Z", "2026-11-02T08:00:00Z", 88200},
		{"clocks went back", "calendar day America/Los_Angeles", "2026-11-01T23:30:00-08:00", "2026-11-01T07:00:00Z", "2026-11-02T08:00:00Z", 1800},
		{"clocks go forward", "calendar day America/Los_Angeles", "2026-03-08T00:30:00-08:00", "2026-03-08T08:00:00Z", "2026-03-09T07:00:00Z", 81000},
		// Midnights that do not exist: the day begins with the first instant after.
		{"no midnight in São Paulo", "calendar day America/Sao_Paulo", "2018-11-04T12:00:00-02:00", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z", 0},
		{"the day before", "calendar day America/Sao_Paulo", "2018-11-03T23:59:59-03:00", "2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z", 1},
		{"no midnight in Cairo", "calendar day Africa/Cairo", "2026-04-24T01:00:00+03:00", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z", 0},
		{"23 o'clock twice in São Paulo", "calendar day America/Sao_Paulo", "2018-02-18T01:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z", 0},
		{"the last day of a leap year", "calendar day Europe/Berlin", "2040-12-31T12:00:00Z", "2040-12-30T23:00:00Z", "2040-12-31T23:00:00Z", 0},
		// A day that comes back for an hour, at 00:01 in St. John's, begins the next one once.
		{"midnight twice in St. John's", "calendar day America/St_Johns", "2006-10-29T02:45:00Z", "2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z", 0},
		// Samoa had no 30 December 2011.
		{"a day that does not exist", "calendar day Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", 1},
		{"and the one after", "calendar day Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z", 86400},
		// Case 20: weeks from Monday.
		{"a week in Berlin", "calendar week Europe/Berlin", "2026-01-01T00:00:00Z", "2025-12-28T23:00:00Z", "2026-01-04T23:00:00Z", 0},
		{"a Sunday", "calendar week", "2026-01-04T23:59:59Z", "2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z", 1},
		{"a Monday", "calendar week", "2026-01-05T00:00:00Z", "2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z", 604800},
		{"a week with a change", "calendar week Europe/Berlin", "2026-03-25T00:00:00Z", "2026-03-22T23:00:00Z", "2026-03-29T22:00:00Z", 0},
		{"a month in Kathmandu", "calendar month Asia/Kathmandu", "2026-03-01T00:00:00+05:45", "2026-02-28T18:15:00Z", "2026-03-31T18:15:00Z", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := domain.ParseSchedule(c.schedule)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, c.at)
			if err != nil {
				t.Fatal(err)
			}
			w := s.At(at)
			if start, end := w.Start.Format(time.RFC3339), w.End.Format(time.RFC3339); start != c.start || end != c.end {
				t.Errorf("%s is in [%s, %s), want [%s, %s)", c.at, start, end, c.start, c.end)
			}
			if left := w.SecondsLeft(at); c.left > 0 && left != c.left {
				t.Errorf("%d seconds left, want %d", left, c.left)
			}
		})
	}
}

var someZones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Africa/Cairo", "Asia/Kathmandu", "Asia/Beirut", "Asia/Tehran",
	"Pacific/Apia", "Pacific/Kiritimati", "Pacific/Chatham", "Australia/Lord_Howe", "America/Havana", "Asia/Gaza", "Antarctica/Troll", "Africa/Monrovia", "Europe/Dublin",
}

func TestCalendarWindowsTileTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]domain.CalendarUnit{domain.Day, domain.Week, domain.Month, domain.Year}).Draw(t, "unit")
		zone := rapid.SampledFrom(someZones).Draw(t, "zone")
		s := calendar(t, unit, zone)
		at := time.Unix(rapid.Int64Range(-2_000_000_000, 4_000_000_000).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond"))
		w := s.At(at)
		if !w.Contains(at) {
			t.Fatalf("%s is not in its window %v", at.UTC(), w)
		}
		if s.At(w.Start) != w || s.At(w.End.Add(-time.Nanosecond)) != w {
			t.Fatalf("an instant in %v has another window: %v, %v", w, s.At(w.Start), s.At(w.End.Add(-time.Nanosecond)))
		}
		next, before := s.At(w.End), s.At(w.Start.Add(-time.Nanosecond))
		if next.Start != w.End || before.End != w.Start {
			t.Fatalf("the windows beside %v are %v and %v", w, before, next)
		}
		if s.Expiry(w) != next.End {
			t.Fatalf("%v expires at %s, want the end of %v", w, s.Expiry(w), next)
		}
		longest := map[domain.CalendarUnit]time.Duration{domain.Day: 49, domain.Week: 7*24 + 25, domain.Month: 31*24 + 25, domain.Year: 366*24 + 25}[unit] * time.Hour
		if length := w.End.Sub(w.Start); length <= 0 || length > longest {
			t.Fatalf("%v is %s long", w, length)
		}
		if w.Start.Location() != time.UTC || w.Start.Nanosecond() != 0 {
			t.Fatalf("the start %s is not whole seconds in UTC", w.Start)
		}
	})
}
