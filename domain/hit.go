package domain

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hit is one request to be decided.
type Hit struct {
	// Key is who is limited, see [CheckKey].
	Key string
	// Policies names the policies that must all allow the hit, each once.
	Policies []string
	// Cost is how many units the hit takes from each policy, 0 to [MaxUnits]. A
	// hit that costs nothing only looks: it counts nothing and leaves no call.
	Cost int64

	// Origin takes no part in the decision.
	Origin
}

// Origin describes a request in the audit log. Each part may be empty.
type Origin struct {
	Method    string
	Path      string
	RequestID string
	// Actor is who did it, of what administrators do: "admin ip:192.0.2.1", where the
	// address is as [ClientAddress.Key] gives it, "cli root@host", or of what a server
	// does by itself "serve host:4711". It is empty for hits.
	Actor string
}

// maxLogText is the length of the longest text that [LogText] leaves, in bytes.
const maxLogText = 256

// LogText is text from outside as the log takes it: its valid UTF-8 without control
// characters, 256 bytes at most.
func LogText(text string) string {
	var b strings.Builder
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) || unicode.IsControl(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > maxLogText {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Check reports with an *InvalidError what is wrong with the hit as such; whether
// its policies exist, and whether they could ever allow the cost, is not its to say.
func (h Hit) Check() error {
	if err := CheckKey(h.Key); err != nil {
		return err
	}
	if h.Cost < 0 || h.Cost > MaxUnits {
		return &InvalidError{"cost", fmt.Sprintf("is %d, it must be 0 to %d", h.Cost, int64(MaxUnits))}
	}
	if len(h.Policies) == 0 {
		return &InvalidError{"policies", "must name at least one policy"}
	}
	for i, name := range h.Policies {
		for _, before := range h.Policies[:i] {
			if name == before {
				return &InvalidError{"policies", fmt.Sprintf("name %q twice", name)}
			}
		}
	}
	return nil
}
