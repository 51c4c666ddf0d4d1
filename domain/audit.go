package domain

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// LogMode says which of a policy's hits go into the audit log.
type LogMode string

// The modes. The zero value is LogAll.
const (
	LogAll     LogMode = ""
	LogAllowed LogMode = "allowed"
	LogRefused LogMode = "refused"
	LogOff     LogMode = "off"
)

// ParseLogMode reads all, allowed, refused or off. Anything else is an *InvalidError.
func ParseLogMode(text string) (LogMode, error) {
	switch mode := LogMode(text); mode {
	case "all":
		return LogAll, nil
	case LogAllowed, LogRefused, LogOff:
		return mode, nil
	}
	return "", &InvalidError{"log", fmt.Sprintf("is %q, it must be all, allowed, refused or off", text)}
}

// Audit says what the audit log has of a policy's hits, and for how long. The zero
// value is everything, for ever. Counters are exact whatever it says.
type Audit struct {
	Log LogMode
	// Sample is the share of those hits that is logged, [MinSample] to 1; 0 is 1. It is
	// drawn for each hit by itself.
	Sample float64
	// Keep is for how long calls are kept, at least a second; 0 is for ever.
	Keep time.Duration
	// MaxRows is how many calls are kept at most, the newest; 0 is any number.
	MaxRows int64
}

// MinSample is the smallest share that can be logged: one hit of a million.
const MinSample = 0.000001

// ParseSample reads a share: a decimal number from [MinSample] to 1, without an exponent.
func ParseSample(text string) (float64, error) {
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Trim(text, "0123456789.") != "" || share < MinSample || share > 1 {
		return 0, &InvalidError{"sample", fmt.Sprintf("is %q, it must be a number like 0.1, from 0.000001 to 1", text)}
	}
	return share, nil
}

// ParseMaxRows reads a number of calls, at least 1.
func ParseMaxRows(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n < 1 {
		return 0, &InvalidError{"max_rows", fmt.Sprintf("is %q, it must be a whole number, at least 1", text)}
	}
	return int64(n), nil
}

// ParseKeep reads for how long calls are kept, as [ParseDuration] does.
func ParseKeep(text string) (time.Duration, error) {
	d, err := ParseDuration(text)
	if err != nil {
		return 0, &InvalidError{"keep", fmt.Sprintf("is not right: %v", err)}
	}
	if d < time.Second {
		return 0, &InvalidError{"keep", fmt.Sprintf("is %s, it must be at least 1s", d)}
	}
	return d, nil
}

// String is the text form of the mode, as [ParseLogMode] reads it.
func (m LogMode) String() string {
	if m == LogAll {
		return "all"
	}
	return string(m)
}

// Coverage is what the log has of the policy's hits, as its calls tell: "" is all,
// else like "refused" or "all sample 0.1".
func (a Audit) Coverage() string {
	switch {
	case a.Log == LogOff:
		return LogOff.String()
	case a.samples():
		return a.Log.String() + " sample " + strconv.FormatFloat(a.Sample, 'f', -1, 64)
	}
	return string(a.Log)
}

// Logs reports whether hits of that outcome may be logged at all.
func (a Audit) Logs(allowed bool) bool {
	switch a.Log {
	case LogAll:
		return true
	case LogAllowed:
		return allowed
	case LogRefused:
		return !allowed
	}
	return false
}

// Logged is how many of so many hits of one outcome are logged: on average the
// sample of them. draw is uniformly random, 0 or more and less than 1.
func (a Audit) Logged(hits int64, allowed bool, draw float64) int64 {
	switch {
	case !a.Logs(allowed):
		return 0
	case a.samples():
		return int64(float64(hits)*a.Sample + draw) // the whole part, and one more with the chance of the fraction
	}
	return hits
}

func (a Audit) samples() bool { return a.Sample > 0 && a.Sample < 1 }
