package domain_test

import (
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestAMinuteIsATimeWithoutSeconds(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-01T14:03Z": "2026-01-01T14:03:00Z", "2026-01-01T14:03+09:00": "2026-01-01T05:03:00Z", "2026-01-01T00:00-00:30": "2026-01-01T00:30:00Z",
		"2026-01-01T14:03": "", "2026-01-01T14:03:00Z": "", "2026-01-01T14:03.5Z": "", "2026-01-01T14:03,5Z": "", "2026-01-01 14:03Z": "", "2026-01-01T1:03Z": "", "2026-02-30T14:03Z": "", "14:03": "", "": "",
		"2026-01-01T14:60Z": "", "2026-01-01T14:03 09:00": "", "2026-01-01T14:03z": "",
	} {
		got, ok := domain.ParseMinute(text)
		if ok != (want != "") || ok && got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%q is %v, %t; want %q", text, got, ok, want)
		}
	}
}

func TestTheLogCanBeAskedAboutTheYears1970To9998(t *testing.T) {
	for text, want := range map[string]bool{
		"0001-01-01T00:00:00Z": false, "1969-12-31T23:59:59.999Z": false, "1970-01-01T08:00:00+09:00": false, "1970-01-01T00:00:00Z": true,
		"9998-12-31T23:59:59.999Z": true, "9998-12-31T23:59:59-00:01": false, "9999-01-01T00:00:00Z": false,
	} {
		at, ok := domain.ParseTime(text)
		if err := domain.CheckTime("at", at); !ok || (err == nil) != want {
			t.Errorf("%s: %v, want %t", text, err, want)
		}
	}
}

func TestATimeIsAsRFC3339WritesIt(t *testing.T) {
	for text, want := range map[string]bool{
		"2026-01-01T07:00:00Z": true, "2026-01-01T07:00:00.123456789+23:59": true, "2026-01-01T07:00:00-00:00": true, "2024-02-29T07:00:00Z": true,
		"2026-01-01T7:00:00Z": false, "2026-01-01T07:00:00,5Z": false, "2026-01-01T07:00:00+24:00": false, "2026-01-01T07:00:00+23:60": false,
		"2026-01-01T07:00:00-99:00": false, "2026-01-01T24:00:00Z": false, "2026-01-01T07:00:60Z": false, "2026-02-29T07:00:00Z": false,
		"2026-01-01T07:00:00": false, "2026-01-01 07:00:00Z": false, "2026-01-01T07:00:00+0900": false, "2026-01-01T07:00:00.Z": false, "+2026-01-01T07:00:00Z": false,
	} {
		if _, ok := domain.ParseTime(text); ok != want {
			t.Errorf("%q: %t, want %t", text, ok, want)
		}
	}
}
