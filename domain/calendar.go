package domain

import (
	"fmt"
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
	if err != nil || zone == "Local" { // that is the machine's zone, and no policy may depend on the machine
		return Schedule{}, &InvalidError{"window", fmt.Sprintf("is in the time zone %q, which does not exist", zone)}
	}
	return Schedule{kind: calendarSchedule, unit: unit, zone: location}, nil
}

// date is a civil date, counted as days like time.Date does: days beyond the month run on.
type date struct {
	year  int
	month time.Month
	day   int
}

// period is the civil period that t lies in.
func (s Schedule) period(t time.Time) Window {
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
// later. time.Date does not promise that where midnight is skipped or comes twice.
func beginning(zone *time.Location, d date) time.Time {
	midnight := time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC)
	const farthest = 30 * time.Hour // no clock is farther from UTC, changes included
	for at := midnight.Add(-farthest); ; {
		_, offset := at.In(zone).Zone()
		start, end := at.In(zone).ZoneBounds()
		begins := midnight.Add(-time.Duration(offset) * time.Second)
		if end.IsZero() || begins.Before(end) {
			if begins.Before(start) { // the change to this offset skipped it
				begins = start
			}
			return begins.UTC()
		}
		at = end
	}
}
