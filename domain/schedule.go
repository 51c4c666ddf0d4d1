package domain

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// MaxWindow is the length of the longest window, 100 years of 365 days.
const MaxWindow = 36500 * 24 * time.Hour

// Schedule says how a policy cuts time into windows. Windows of one schedule
// tile time: every instant lies in exactly one. The zero Schedule is not valid;
// make one with [Fixed] or [ParseSchedule].
type Schedule struct {
	length int64 // seconds
}

// Fixed is the schedule of windows of length d that are aligned to the Unix
// epoch. d is whole seconds, from one second to [MaxWindow]; anything else is an
// *InvalidError. A window of one week therefore starts on a Thursday, 00:00 UTC.
func Fixed(d time.Duration) (Schedule, error) {
	switch {
	case d < time.Second:
		return Schedule{}, &InvalidError{"window", fmt.Sprintf("of %s is too short, the shortest is 1s", d)}
	case d%time.Second != 0:
		return Schedule{}, &InvalidError{"window", fmt.Sprintf("of %s is not whole seconds", d)}
	case d > MaxWindow:
		return Schedule{}, &InvalidError{"window", fmt.Sprintf("of %s is too long, the longest is %s", d, FormatDuration(MaxWindow))}
	}
	return Schedule{length: int64(d / time.Second)}, nil
}

// ParseSchedule reads the text form of a schedule: "fixed 1m", or the bare
// duration "1m" that means the same. A duration is what [ParseDuration] reads.
// What it cannot read is an *InvalidError.
func ParseSchedule(text string) (Schedule, error) {
	fields := strings.Fields(text)
	switch {
	case len(fields) == 2 && fields[0] == "fixed":
		fields = fields[1:]
	case len(fields) != 1:
		return Schedule{}, &InvalidError{"window", fmt.Sprintf("%q is not a schedule; write \"fixed 1m\", or \"1m\" for the same", text)}
	}
	d, err := ParseDuration(fields[0])
	if err != nil {
		return Schedule{}, &InvalidError{"window", fmt.Sprintf("%q is not a schedule: %v", text, err)}
	}
	return Fixed(d)
}

// String is the text form that [ParseSchedule] reads.
func (s Schedule) String() string {
	return "fixed " + FormatDuration(time.Duration(s.length)*time.Second)
}

// At is the window that t lies in. It works before 1970 too.
func (s Schedule) At(t time.Time) Window {
	sec := t.Unix() // the floor, whatever the fraction
	start := sec - mod(sec, s.length)
	return Window{Start: time.Unix(start, 0).UTC(), End: time.Unix(start+s.length, 0).UTC()}
}

// Expiry is when w may be forgotten: the first instant at which w is neither the
// current window nor the previous one.
func (s Schedule) Expiry(w Window) time.Time { return w.End.Add(w.End.Sub(w.Start)) }

// ParseDuration reads a duration of whole units: "90s", "1h30m", "2d". The units
// are d (24 hours), h, m and s, each at most once and in this order.
func ParseDuration(text string) (time.Duration, error) {
	var total int64
	rest, order := text, "dhms"
	for rest != "" {
		n := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if n <= 0 {
			return 0, fmt.Errorf("%q is not a duration like 90s, 15m, 1h30m or 2d", text)
		}
		value, err := strconv.ParseInt(rest[:n], 10, 64)
		unit := strings.IndexByte(order, rest[n])
		if unit < 0 {
			return 0, fmt.Errorf("%q is not a duration like 90s, 15m, 1h30m or 2d", text)
		}
		seconds := secondsPer[rest[n]]
		if err != nil || value > (math.MaxInt64/int64(time.Second)-total)/seconds {
			return 0, fmt.Errorf("%q is too long", text)
		}
		total += value * seconds
		rest, order = rest[n+1:], order[unit+1:]
	}
	if text == "" {
		return 0, fmt.Errorf("a duration is missing")
	}
	return time.Duration(total) * time.Second, nil
}

// FormatDuration writes whole seconds so that [ParseDuration] reads them back:
// "1m", "1h30m", "2d". A fraction of a second is dropped.
func FormatDuration(d time.Duration) string {
	left := int64(d / time.Second)
	if left == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, unit := range []byte("dhms") {
		if n := left / secondsPer[unit]; n > 0 {
			b.WriteString(strconv.FormatInt(n, 10))
			b.WriteByte(unit)
			left -= n * secondsPer[unit]
		}
	}
	return b.String()
}

var secondsPer = map[byte]int64{'d': 86400, 'h': 3600, 'm': 60, 's': 1}

// mod is the remainder of the division that rounds toward minus infinity.
func mod(a, b int64) int64 { return (a%b + b) % b }
