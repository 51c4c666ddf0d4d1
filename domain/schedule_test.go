package domain_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func fixed(t interface{ Fatal(...any) }, d time.Duration) domain.Schedule {
	s, err := domain.Fixed(d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFixedWindowsAreAlignedToTheEpoch(t *testing.T) {
	for _, c := range []struct {
		length          time.Duration
		at, start, ends string
	}{
		{time.Minute, "2026-01-01T00:00:45Z", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"},
		{time.Minute, "2026-01-01T00:00:59.999999999Z", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"},
		{time.Minute, "2026-01-01T00:01:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"},
		{2 * time.Second, "2026-01-01T12:00:01.999Z", "2026-01-01T12:00:00Z", "2026-01-01T12:00:02Z"},
		{time.Minute, "1969-12-31T23:59:50Z", "1969-12-31T23:59:00Z", "1970-01-01T00:00:00Z"},
		{time.Minute, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z"},
		{time.Minute, "2026-01-01T09:30:30+05:30", "2026-01-01T04:00:00Z", "2026-01-01T04:01:00Z"},
		{7 * 24 * time.Hour, "2026-01-02T12:00:00Z", "2026-01-01T00:00:00Z", "2026-01-08T00:00:00Z"}, // a Thursday
		{7 * time.Second, "2026-01-01T00:01:00Z", "2026-01-01T00:00:56Z", "2026-01-01T00:01:03Z"},    // no divisor of a minute
	} {
		t.Run(fmt.Sprintf("%s at %s", c.length, c.at), func(t *testing.T) {
			at, err := time.Parse(time.RFC3339Nano, c.at)
			if err != nil {
				t.Fatal(err)
			}
			w := fixed(t, c.length).At(at)
			if start, end := w.Start.Format(time.RFC3339Nano), w.End.Format(time.RFC3339Nano); start != c.start || end != c.ends {
				t.Errorf("the window is [%s, %s), want [%s, %s)", start, end, c.start, c.ends)
			}
		})
	}
}

// An instant, from long before 1970 to long after, to the nanosecond.
func instant(t *rapid.T) time.Time {
	return time.Unix(rapid.Int64Range(-1<<36, 1<<36).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond"))
}

func TestWindowsTileTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := time.Duration(rapid.Int64Range(1, int64(domain.MaxWindow/time.Second)).Draw(t, "length")) * time.Second
		s, at := fixed(t, length), instant(t)
		w := s.At(at)
		if !w.Contains(at) {
			t.Fatalf("%s is not in its window %v", at, w)
		}
		if got := w.End.Sub(w.Start); got != length {
			t.Fatalf("the window is %s long, want %s", got, length)
		}
		if s.At(w.Start) != w || s.At(w.End.Add(-time.Nanosecond)) != w {
			t.Fatalf("an instant in the window %v has another", w)
		}
		if next := s.At(w.End); next.Start != w.End {
			t.Fatalf("the window after %v starts at %s", w, next.Start)
		}
		if before := s.At(w.Start.Add(-time.Nanosecond)); before.End != w.Start {
			t.Fatalf("the window before %v ends at %s", w, before.End)
		}
		if mod := w.Start.Unix() % int64(length/time.Second); mod != 0 {
			t.Fatalf("the start %d is not aligned", w.Start.Unix())
		}
		if left := w.SecondsLeft(at); left < 1 || w.Contains(at.Add(time.Duration(left)*time.Second)) ||
			left > 1 && !w.Contains(at.Add(time.Duration(left-1)*time.Second)) {
			t.Fatalf("%d s left at %s until %s", left, at, w.End)
		}
		if expiry := s.Expiry(w); s.At(s.At(expiry).Start.Add(-time.Nanosecond)).Start != w.End {
			t.Fatalf("at its expiry %s the window %v is not the last but one", expiry, w)
		}
	})
}

func TestSecondsLeftAreRoundedUpAndAtLeastOne(t *testing.T) {
	w := domain.Window{Start: time.Unix(60, 0), End: time.Unix(120, 0)}
	for at, want := range map[time.Duration]int64{
		60 * time.Second: 60, 60*time.Second + 1: 60, 70 * time.Second: 50,
		118*time.Second + 999*time.Millisecond: 2, 119 * time.Second: 1, 119*time.Second + 1*time.Millisecond: 1,
		119*time.Second + 500*time.Millisecond: 1, 119*time.Second + 999*time.Millisecond: 1,
		500 * time.Second: 1, -500 * time.Second: 60, // a clock that stepped while a hit was under way
	} {
		if got := w.SecondsLeft(time.Unix(0, int64(at))); got != want {
			t.Errorf("at %s: %d s left, want %d", at, got, want)
		}
	}
}

func TestParseScheduleReadsOneForm(t *testing.T) {
	for text, want := range map[string]string{
		"1m": "fixed 1m", "fixed 1m": "fixed 1m", " fixed  1m ": "fixed 1m", "60s": "fixed 1m", "1h30m": "fixed 1h30m",
		"90s": "fixed 1m30s", "1d": "fixed 1d", "24h": "fixed 1d", "1s": "fixed 1s", "87600h": "fixed 3650d", "36500d": "fixed 36500d",
		"sliding 10s": "sliding 10s", "sliding 60m": "sliding 1h", "calendar day": "calendar day UTC", "calendar week Europe/Berlin": "calendar week Europe/Berlin",
		"calendar month Asia/Tokyo": "calendar month Asia/Tokyo", " calendar  year  UTC ": "calendar year UTC",
	} {
		s, err := domain.ParseSchedule(text)
		if err != nil || s.String() != want {
			t.Errorf("%q is read as %q, %v; want %q", text, s, err, want)
		}
	}
}

func TestParseScheduleRefusesEverythingElse(t *testing.T) {
	for _, text := range []string{
		"", " ", "fixed", "fixed fixed", "1", "60", "0s", "0", "-1m", "-60s", "+1m", "500ms", "1.5s", "1.5h", "1ns", "1us", "1m1m", "1m1h",
		"1M", "1 m", "fixed 1 m", "one minute", "1m;", "\x00", "١m", "36501d", "99999999999999999999s", "9223372036854775807d", "sliding", "hourly", "fixed 500ms",
		"sliding 500ms", "sliding 0s", "sliding calendar", "calendar", "calendar hour", "calendar month Mars/Phobos", "calendar Month", "calendar day Local",
		"calendar day localtime", "calendar day posixrules", "calendar day posix/Asia/Tokyo", "calendar day right/Asia/Tokyo",
		"calendar day UTC UTC", "calendar day ../UTC", "calendar day europe berlin", "calendar 1m", "calendar 5h", "calendar 0s", "calendar -1h", "-1h",
	} {
		s, err := domain.ParseSchedule(text)
		var invalid *domain.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "window" {
			t.Errorf("%q is read as %q, %v; want an *InvalidError of the window", text, s, err)
		}
	}
}

func FuzzParseSchedule(f *testing.F) {
	for _, seed := range []string{"1m", "fixed 1h30m", "500ms", "36500d", "", "sliding 10s", "99999999999s", "calendar month Asia/Tokyo", "calendar day"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := domain.ParseSchedule(text)
		if err != nil {
			return
		}
		again, err := domain.ParseSchedule(s.String())
		if err != nil || !again.Equal(s) {
			t.Errorf("%q is read as %q, and that as %q, %v", text, s, again, err)
		}
		if w := s.At(time.Unix(1767225600, 0)); !w.Contains(time.Unix(1767225600, 0)) {
			t.Errorf("%q has the window %v", text, w)
		}
	})
}
