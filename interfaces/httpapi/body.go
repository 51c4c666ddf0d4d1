package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// value is a value in a JSON body, with the place where it stands.
type value struct {
	pointer string
	raw     json.RawMessage
}

func (v value) invalid(format string, args ...any) error {
	return asProblem(problem.InvalidRequest(problem.Invalid{Detail: fmt.Sprintf(format, args...), Pointer: v.pointer}))
}

// readObject reads a body that is one JSON object, strictly: each member has a
// reader and stands once, the required ones are there, and nothing follows.
func readObject(text []byte, members map[string]func(value) error, required ...string) error {
	whole := value{pointer: "#"}
	if !utf8.Valid(text) { // the decoder would put something else in place of it
		return whole.invalid("the body is not valid UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return whole.invalid("the body must be a JSON object")
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return whole.invalid("the body is not JSON: %v", err)
		}
		v := value{pointer: "#/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)}
		if err := decoder.Decode(&v.raw); err != nil {
			return whole.invalid("the body is not JSON: %v", err)
		}
		read := members[name]
		switch {
		case read == nil:
			return v.invalid("there is no member %q", name)
		case seen[name]:
			return v.invalid("the member %q stands more than once", name)
		}
		seen[name] = true
		if err := read(v); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return whole.invalid("the body is not JSON: %v", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return whole.invalid("something follows the JSON object")
	}
	for _, name := range required {
		if !seen[name] {
			return value{pointer: "#/" + name}.invalid("the member %q is missing", name)
		}
	}
	return nil
}

// text reads a string. An escape that stands for no character is an error: the
// decoder would put another in its place, and two keys could become one.
func (v value) text() (string, error) {
	var s string
	if len(v.raw) == 0 || v.raw[0] != '"' || json.Unmarshal(v.raw, &s) != nil {
		return "", v.invalid("it must be a string")
	}
	if !surrogatesPaired(v.raw) {
		return "", v.invalid("it has half of a surrogate pair")
	}
	return s, nil
}

// surrogatesPaired reports whether the escapes of surrogates in a JSON string come
// in pairs (RFC 8259 section 7).
func surrogatesPaired(raw []byte) bool {
	high := false
	for i := 0; i < len(raw); i++ {
		isLow := false
		if raw[i] == '\\' {
			i++
			if raw[i] == 'u' {
				code, _ := strconv.ParseUint(string(raw[i+1:i+5]), 16, 16) // it is JSON: four digits follow
				i += 4
				if isLow = code >= 0xDC00 && code <= 0xDFFF; isLow != high {
					return false
				}
				high = code >= 0xD800 && code <= 0xDBFF
				continue
			}
		}
		if high {
			return false
		}
	}
	return !high
}

// texts reads a list of strings.
func (v value) texts() ([]string, error) {
	var items []json.RawMessage
	if len(v.raw) == 0 || v.raw[0] != '[' || json.Unmarshal(v.raw, &items) != nil {
		return nil, v.invalid("it must be a list of strings")
	}
	texts := make([]string, len(items))
	for i, raw := range items {
		var err error
		if texts[i], err = (value{pointer: v.pointer + "/" + strconv.Itoa(i), raw: raw}).text(); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// units reads a limit: a whole number that a limit may be, or "unlimited".
func (v value) units() (int64, error) {
	if string(v.raw) == `"unlimited"` {
		return domain.Unlimited, nil
	}
	n, err := strconv.ParseInt(string(v.raw), 10, 64)
	if err != nil || n < 0 || n > domain.MaxUnits {
		return 0, v.invalid("it must be a whole number from 0 to %d, or \"unlimited\"", domain.MaxUnits)
	}
	return n, nil
}

// integer reads a whole number, written without fraction and exponent.
func (v value) integer() (int64, error) {
	n, err := strconv.ParseInt(string(v.raw), 10, 64)
	if err != nil {
		return 0, v.invalid("it must be a whole number of at most 64 bits, written without fraction and exponent")
	}
	return n, nil
}
