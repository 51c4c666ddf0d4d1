package domain

import (
	"fmt"
	"sort"
	"strings"
	"sync/atomic"
	"time"
	_ "time/tzdata" // zones must not depend on what a machine has installed
)

// CalendarUnit is the length of a calendar window.
type CalendarUnit string

// The calendar units. Weeks start on Monday.
const (
	Day   CalendarUnit = "day"
	Week  CalendarUnit = "week"
	Month CalendarUnit = "month"
	Year  CalendarUnit = "year"
)

// Calendar is the schedule of civil periods in an IANA time zone, "" being UTC. A
// period begins when its first day does there: at midnight, or, where a clock
// change skips midnight, at the first instant after. Days therefore have 23, 24 or
// 25 hours, or what else the zone decided. A unit or a zone that does not exist is
// an *InvalidError.
func Calendar(unit CalendarUnit, zone string) (Schedule, error) {
	switch unit {
	case Day, Week, Month, Year:
	default:
		return Schedule{}, &InvalidError{"window", fmt.Sprintf("has the calendar unit %q; it is day, week, month or year", unit)}
	}
	if zone == "" {
		zone = "UTC"
	}
	location, err := time.LoadLocation(zone)
	if err != nil || ofTheMachine(zone) {
		return Schedule{}, &InvalidError{"window", fmt.Sprintf("is in the time zone %q, which does not exist", zone)}
	}
	return Schedule{&schedule{kind: calendarSchedule, unit: unit, zone: location, text: "calendar " + string(unit) + " " + location.String()}}, nil
}

// ofTheMachine reports whether zone is none of IANA's but a name that some machines
// know: their own zone, or one with leap seconds. No policy may depend on the machine.
func ofTheMachine(zone string) bool {
	return zone == "Local" || zone == "localtime" || zone == "posixrules" || strings.HasPrefix(zone, "posix/") || strings.HasPrefix(zone, "right/")
}

// date is a civil date, counted as days like time.Date does: days beyond the month run on.
type date struct {
	year  int
	month time.Month
	day   int
}

// period is the civil period that t lies in. The last one is remembered, because
// hits come in the order of time and to find one takes some reckoning.
func (s Schedule) period(t time.Time) Window { return s.recall(&s.current, t) }

// periodAfter is the period that begins with the end of another.
func (s Schedule) periodAfter(w Window) Window { return s.recall(&s.following, w.End) }

func (s Schedule) recall(last *atomic.Pointer[Window], t time.Time) Window {
	if w := last.Load(); w != nil && w.Contains(t) {
		return *w
	}
	w := s.reckon(t)
	last.Store(&w)
	return w
}

func (s Schedule) reckon(t time.Time) Window {
	zone := s.zone
	first := s.first(t.In(zone))
	// Where clocks are turned back over midnight, a day comes back after the next one
	// has begun. A day begins once, when its midnight is first reached.
	for beginning(zone, first).After(t) {
		first = s.step(first, -1)
	}
	next := s.step(first, 1)
	for !beginning(zone, next).After(t) {
		first, next = next, s.step(next, 1)
	}
	return Window{Start: beginning(zone, first), End: beginning(zone, next)}
}

// first is the first day of the period that has the civil day of t.
func (s Schedule) first(t time.Time) date {
	year, month, day := t.Date()
	switch s.unit {
	case Week:
		day -= (int(t.Weekday()) + 6) % 7
	case Month:
		day = 1
	case Year:
		month, day = time.January, 1
	}
	return date{year, month, day}
}

// step is the first day of the n-th period after.
func (s Schedule) step(d date, n int) date {
	switch s.unit {
	case Day:
		d.day += n
	case Week:
		d.day += 7 * n
	case Month:
		d.month += time.Month(n)
	case Year:
		d.year += n
	}
	return d
}

// beginning is the first instant at which the zone's clock shows midnight of d or
// later. time.Date does not promise that where midnight is skipped or comes twice,
// and Time.ZoneBounds gives a bound before its time on the last day of leap years
// beyond a zone's table (Go 1.26), so offsets are looked at hour by hour.
func beginning(zone *time.Location, d date) time.Time {
	midnight := time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC)
	const farthest = 30 * time.Hour // no clock is farther from UTC, changes included
	at, last := midnight.Add(-farthest), midnight.Add(farthest)
	offset := offsetAt(zone, at)
	if offset == offsetAt(zone, midnight) && offset == offsetAt(zone, last) {
		return midnight.Add(-offset) // nearly always; two changes do not come within two days
	}
	since := at // when the clock took this offset, as far as it matters
	for at.Before(last) {
		next := at.Add(time.Hour)
		changed := offsetAt(zone, next)
		if changed != offset {
			seconds := sort.Search(3600, func(s int) bool {
				return offsetAt(zone, at.Add(time.Duration(s+1)*time.Second)) != offset
			})
			change := at.Add(time.Duration(seconds+1) * time.Second)
			if begins := midnight.Add(-offset); begins.Before(change) {
				return later(begins, since)
			}
			since, offset = change, changed
		}
		at = next
	}
	return later(midnight.Add(-offset), since)
}

// offsetAt is how far the zone's clock is ahead of UTC at t.
func offsetAt(zone *time.Location, t time.Time) time.Duration {
	_, offset := t.In(zone).Zone()
	return time.Duration(offset) * time.Second
}

func later(t, u time.Time) time.Time {
	if t.Before(u) {
		return u
	}
	return t
}
