package domain_test

import (
	"strings"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestLogTextIsShortValidTextWithoutControlCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"cli root@host":            "cli root@host",
		"é 日本 \uFFFD":              "é 日本 \uFFFD",
		"a\x00b\x1b[1mc\nd\u0085e": "ab[1mcde",
		"a\xffb\xc3":               "ab",
		strings.Repeat("x", 300):   strings.Repeat("x", 256),
		strings.Repeat("é", 200):   strings.Repeat("é", 128),
		strings.Repeat("日", 200):   strings.Repeat("日", 85),
	} {
		if got := domain.LogText(text); got != want {
			t.Errorf("LogText(%q) = %q, want %q", text, got, want)
		}
	}
}
