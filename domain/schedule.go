package domain

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// MaxWindow is the length of the longest fixed or sliding window, 100 years of 365 days.
const MaxWindow = 36500 * 24 * time.Hour

// Schedule says how a policy cuts time into windows. Windows of one schedule
// tile time: every instant lies in exactly one. Compare schedules with Equal; the
// zero Schedule is not valid.
type Schedule struct{ *schedule } // small, because decisions carry it about

type schedule struct {
	kind   scheduleKind
	length int64 // seconds, of fixed and sliding
	unit   CalendarUnit
	zone   *time.Location // of calendar
	text   string

	current, following atomic.Pointer[Window] // of calendar: periods that were asked for last
}

type scheduleKind byte

const (
	fixedSchedule scheduleKind = iota + 1
	slidingSchedule
	calendarSchedule
)

// Fixed is the schedule of windows of length d that are aligned to the Unix
// epoch. d is whole seconds, from one second to [MaxWindow]; anything else is an
// *InvalidError. A window of one week therefore starts on a Thursday, 00:00 UTC.
func Fixed(d time.Duration) (Schedule, error) { return spans(fixedSchedule, d) }

// Sliding is a window of length d that ends now, estimated from two windows that
// are aligned to the Unix epoch: of what was used in the previous one, the share
// that has not slid out yet weighs in, rounded up. d is as for [Fixed].
func Sliding(d time.Duration) (Schedule, error) { return spans(slidingSchedule, d) }

func spans(kind scheduleKind, d time.Duration) (Schedule, error) {
	switch {
	case d < time.Second:
		return Schedule{}, &InvalidError{"window", fmt.Sprintf("of %s is too short, the shortest is 1s", d)}
	case d%time.Second != 0:
		return Schedule{}, &InvalidError{"window", fmt.Sprintf("of %s is not whole seconds", d)}
	case d > MaxWindow:
		return Schedule{}, &InvalidError{"window", fmt.Sprintf("of %s is too long, the longest is %s", d, FormatDuration(MaxWindow))}
	}
	text := "fixed "
	if kind == slidingSchedule {
		text = "sliding "
	}
	return Schedule{&schedule{kind: kind, length: int64(d / time.Second), text: text + FormatDuration(d)}}, nil
}

// ParseSchedule reads the text form of a schedule:
//
//	fixed 1m                      windows of one length; the bare duration "1m" means the same
//	sliding 10s                   the last 10 seconds at any time
//	calendar month Asia/Tokyo     civil days, weeks (from Monday), months or years, in UTC if no zone is named
//
// A duration is what [ParseDuration] reads. What cannot be read is an *InvalidError.
func ParseSchedule(text string) (Schedule, error) {
	words := strings.Fields(text)
	if len(words) == 1 && words[0] != "fixed" && words[0] != "sliding" && words[0] != "calendar" {
		words = []string{"fixed", words[0]}
	}
	switch {
	case len(words) == 2 && (words[0] == "fixed" || words[0] == "sliding"):
		d, err := ParseDuration(words[1])
		if err != nil {
			return Schedule{}, &InvalidError{"window", fmt.Sprintf("%q is not a schedule: %v", text, err)}
		}
		if words[0] == "sliding" {
			return Sliding(d)
		}
		return Fixed(d)
	case (len(words) == 2 || len(words) == 3) && words[0] == "calendar":
		return Calendar(CalendarUnit(words[1]), strings.Join(words[2:], ""))
	}
	return Schedule{}, &InvalidError{"window", fmt.Sprintf("%q is not a schedule; write \"1m\", \"fixed 1m\", \"sliding 10s\" or \"calendar month Asia/Tokyo\"", text)}
}

// String is the text form that [ParseSchedule] reads.
func (s Schedule) String() string {
	if s.schedule == nil {
		return ""
	}
	return s.text
}

// Equal reports whether s and other cut time in the same way.
func (s Schedule) Equal(other Schedule) bool { return s.String() == other.String() }

// At is the window that t lies in. It works before 1970 too.
func (s Schedule) At(t time.Time) Window {
	if s.kind == calendarSchedule {
		return s.period(t)
	}
	sec := t.Unix() // the floor, whatever the fraction
	start := sec - mod(sec, s.length)
	return Window{Start: time.Unix(start, 0).UTC(), End: time.Unix(start+s.length, 0).UTC()}
}

// Previous is what weighs in at t, which lies in w, of the window before w; the
// zero value if the schedule does not slide.
func (s Schedule) Previous(w Window, t time.Time) Previous {
	if !s.slides() {
		return Previous{}
	}
	length := w.End.Sub(w.Start)
	left := min(max(w.End.Sub(t), 0), length)
	return Previous{
		Window: Window{Start: w.Start.Add(-length), End: w.Start},
		Num:    int64(left), Den: int64(length),
	}
}

// Expiry is when w may be forgotten: the first instant at which w is neither the
// current window nor the previous one.
func (s Schedule) Expiry(w Window) time.Time {
	if s.kind == calendarSchedule {
		return s.periodAfter(w).End
	}
	return w.End.Add(w.End.Sub(w.Start))
}

// slides reports whether windows look back; the zero Schedule's do not.
func (s Schedule) slides() bool { return s.schedule != nil && s.kind == slidingSchedule }

// mod is the remainder of the division that rounds toward minus infinity.
func mod(a, b int64) int64 { return (a%b + b) % b }
