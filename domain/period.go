package domain

import (
	"fmt"
	"sort"
	"sync/atomic"
	"time"
)

// Usage is the hits of a span of time, added up in groups.
type Usage struct {
	By UsageBy
	// From and To are the span [From, To).
	From, To time.Time
	// Zone is what groups of time are civil in.
	Zone *time.Location
	// Partial says that the log does not have all hits of some policy, so that the
	// sums are too small. That it has hits no more, or never had one of a policy, does
	// not show here.
	Partial bool
	// Shadow are the policies that were in shadow at some time of the span, sorted: units
	// that these refused may have passed.
	Shadow []string
	// Groups is how many groups there are, and Allowed and Refused the units of all of
	// them; Top are those that were asked for.
	Groups           int
	Allowed, Refused int64
	Top              []UsageGroup
}

// UsageGroup is the hits that have something in common.
type UsageGroup struct {
	// Name is the key, the policy or the path, and Window the minute, hour, day or
	// month; the other one is zero.
	Name   string
	Window Window
	// Allowed and Refused are units, the largest int64 if they are more. What a policy
	// in shadow would have refused is in Refused.
	Allowed, Refused int64
}

// Zone is the time zone that IANA calls name. One that does not exist is an *InvalidError.
func Zone(name string) (*time.Location, error) {
	if zone, err := time.LoadLocation(name); err == nil && name != "" && !ofTheMachine(name) {
		return zone, nil
	}
	return nil, &InvalidError{"zone", fmt.Sprintf("is %q, which is no time zone; write one like Europe/Berlin", name)}
}

// Periods cuts time as by does: into the minutes of UTC, or the hours, days or months
// of a zone. An hour ends where the zone's clock is changed, so that one that comes
// twice is two. The function remembers the period that it was asked for last, and is
// safe for concurrent use. Of what is no time, or a zone that [Zone] does not know,
// there is an *InvalidError.
func (by UsageBy) Periods(zone *time.Location) (func(time.Time) Window, error) {
	if _, err := Zone(zone.String()); err != nil {
		return nil, err
	}
	switch by {
	case UsageByMinute:
		minutes, err := Fixed(time.Minute)
		return minutes.At, err
	case UsageByHour:
		return remembering(func(t time.Time) Window { return hour(zone, t) }), nil
	case UsageByDay, UsageByMonth:
		periods, err := Calendar(CalendarUnit(by), zone.String())
		return periods.At, err
	}
	return nil, &InvalidError{"by", fmt.Sprintf("is %q, which is no time", by)}
}

// hour is the hour on the zone's clock that t lies in, as far as the clock goes
// without a change. Not everywhere do hours begin with those of UTC.
func hour(zone *time.Location, t time.Time) Window {
	clock := t.In(zone)
	since := clock.Minute()*60 + clock.Second()
	full := time.Unix(t.Unix()-int64(since), 0).UTC()
	offset := offsetAt(zone, t)
	same := func(second int) bool {
		return offsetAt(zone, full.Add(time.Duration(second)*time.Second)) == offset
	}
	first := sort.Search(since, same)
	end := since + sort.Search(3600-since, func(second int) bool { return !same(since + second) })
	return Window{Start: full.Add(time.Duration(first) * time.Second), End: full.Add(time.Duration(end) * time.Second)}
}

// remembering spares reckoning for times that come in order.
func remembering(reckon func(time.Time) Window) func(time.Time) Window {
	var last atomic.Pointer[Window]
	return func(t time.Time) Window {
		if w := last.Load(); w != nil && w.Contains(t) {
			return *w
		}
		w := reckon(t)
		last.Store(&w)
		return w
	}
}
