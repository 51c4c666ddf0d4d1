package domain_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestKeysAreValidUTF8WithoutControlsUpTo512Bytes(t *testing.T) {
	for _, c := range []struct{ name, key, reason string }{
		{"empty", "", "must not be empty"},
		{"zero", "0", ""},
		{"blank", " ", ""},
		{"emoji", "😀", ""},
		{"SQL", "' OR 1=1--", ""},
		{"longest", strings.Repeat("a", 512), ""},
		{"too long", strings.Repeat("a", 513), "is 513 bytes long, at most 512 are allowed"},
		{"too long by bytes, not by letters", strings.Repeat("é", 257), "is 514 bytes long, at most 512 are allowed"},
		{"invalid UTF-8", "a\xff", "is not valid UTF-8"},
		{"cut UTF-8", "\xf0\x9f\x98", "is not valid UTF-8"},
		{"surrogate", "\xed\xa0\x80", "is not valid UTF-8"},
		{"NUL", "a\x00b", "has the control character U+0000 at byte 1"},
		{"tab", "\t", "has the control character U+0009 at byte 0"},
		{"line feed", "ab\n", "has the control character U+000A at byte 2"},
		{"delete", "\x7f", "has the control character U+007F at byte 0"},
		{"C1", "é\u0085", "has the control character U+0085 at byte 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := domain.CheckKey(c.key)
			if c.reason == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			var invalid *domain.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != "key" || invalid.Reason != c.reason {
				t.Errorf("got %v, want that the key %s", err, c.reason)
			}
		})
	}
}

func FuzzCheckKey(f *testing.F) {
	for _, seed := range []string{"", "alice", "a\x00", "\xff", "😀", "\u0085", strings.Repeat("x", 513)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		valid := key != "" && len(key) <= 512 && utf8.ValidString(key)
		for _, r := range key {
			valid = valid && !unicode.IsControl(r)
		}
		err := domain.CheckKey(key)
		if valid != (err == nil) {
			t.Errorf("CheckKey(%q) = %v", key, err)
		}
		if err != nil && !utf8.ValidString(err.Error()) {
			t.Errorf("the error %q is not valid UTF-8", err)
		}
	})
}
