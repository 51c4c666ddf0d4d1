package domain

import "time"

// Window is a half-open span of time [Start, End), both in UTC.
type Window struct {
	Start time.Time
	End   time.Time
}

// Contains reports whether t lies in the window; Start does, End does not.
func (w Window) Contains(t time.Time) bool { return !t.Before(w.Start) && t.Before(w.End) }

// Seconds is the window's length in seconds.
func (w Window) Seconds() int64 { return w.End.Unix() - w.Start.Unix() }

// SecondsLeft is the time from t to the window's end in whole seconds, rounded
// up, so that whoever waits that long is past the end. It is at least 1 and at
// most the window's length, also when the clock stands outside the window.
func (w Window) SecondsLeft(t time.Time) int64 {
	left := w.End.Unix() - t.Unix() // floored seconds: a fraction of t only shortens the wait
	return min(max(left, 1), w.Seconds())
}
