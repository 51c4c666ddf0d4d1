package domain

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKeyBytes is the length of the longest key.
const MaxKeyBytes = 512

// CheckKey reports with an *InvalidError what keeps key from being a key. A key
// is 1 to [MaxKeyBytes] bytes of valid UTF-8 without control characters. It is
// opaque beyond that: compared byte for byte, never trimmed, folded or joined.
func CheckKey(key string) error {
	switch {
	case key == "":
		return &InvalidError{"key", "must not be empty"}
	case len(key) > MaxKeyBytes:
		return &InvalidError{"key", fmt.Sprintf("is %d bytes long, at most %d are allowed", len(key), MaxKeyBytes)}
	case !utf8.ValidString(key):
		return &InvalidError{"key", "is not valid UTF-8"}
	}
	if i := strings.IndexFunc(key, unicode.IsControl); i >= 0 {
		r, _ := utf8.DecodeRuneInString(key[i:])
		return &InvalidError{"key", fmt.Sprintf("has the control character %U at byte %d", r, i)}
	}
	return nil
}
