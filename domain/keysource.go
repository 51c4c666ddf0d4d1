package domain

import (
	"fmt"
	"strings"
)

// KeySource says what of a request is its key: who is limited. The zero value is
// the client's address.
//
// Keys that a client can choose never meet those made from its address, which begin
// with "ip:", or from a bearer token, which begin with "bearer:": a header's value
// that begins with one of these, or with "header:", gets "header:" in front. Other
// values of headers, and constants, which begin with none of these, are the key as
// they are: those of two headers, or of a header and a constant, may be the same key.
type KeySource struct {
	kind keySourceKind
	text string // the header's name, or the constant
}

type keySourceKind byte

const (
	keyClientAddress keySourceKind = iota
	keyHeader
	keyBearer
	keyConstant
)

// ParseKeySource reads the text form of a key source:
//
//	header X-Api-Key      the value of a header, without the blanks around it
//	bearer                the token of an Authorization header, hashed
//	client address        the client's address, see [ClientAddress]
//	constant everyone     one key for all
//
// What cannot be read is an *InvalidError.
func ParseKeySource(text string) (KeySource, error) {
	kind, rest, _ := strings.Cut(text, " ")
	switch {
	case text == "client address":
		return KeySource{}, nil
	case text == "bearer":
		return KeySource{kind: keyBearer}, nil
	case kind == "header":
		if err := checkKeyHeader(rest); err != nil {
			return KeySource{}, err
		}
		return KeySource{keyHeader, rest}, nil
	case kind == "constant":
		if err := CheckKey(rest); err != nil {
			return KeySource{}, &InvalidError{"key", fmt.Sprintf("source %q is not right: the constant as a %v", text, err)}
		}
		if hasKeyPrefix(rest) {
			return KeySource{}, &InvalidError{"key", fmt.Sprintf("source %q is not right: constants must not begin like keys of other sources", text)}
		}
		return KeySource{keyConstant, rest}, nil
	}
	return KeySource{}, &InvalidError{"key", fmt.Sprintf("source %q is not known; write \"header NAME\", \"bearer\", \"client address\" or \"constant TEXT\"", text)}
}

// checkKeyHeader refuses what is no field name (RFC 9110 section 5.1), and headers
// that another source reads as they are meant.
func checkKeyHeader(name string) error {
	if err := checkToken("header", name); err != nil {
		return err
	}
	switch strings.ToLower(name) {
	case "authorization", "proxy-authorization", "cookie":
		return &InvalidError{"key", fmt.Sprintf("must not be the header %s, which holds secrets that would be stored; write \"bearer\" for a bearer token", name)}
	case "x-forwarded-for", "forwarded":
		return &InvalidError{"key", fmt.Sprintf("must not be the header %s, which any client can send; write \"client address\"", name)}
	}
	return nil
}

// checkToken wants a token (RFC 9110 section 5.6.2), as names of headers and methods are.
func checkToken(field, name string) error {
	const others = "!#$%&'*+-.^_`|~"
	for i := range len(name) {
		c := name[i] | 0x20
		if !(c >= 'a' && c <= 'z' || name[i] >= '0' && name[i] <= '9' || strings.IndexByte(others, name[i]) >= 0) {
			return &InvalidError{field, fmt.Sprintf("name %q has %q at byte %d", name, name[i], i)}
		}
	}
	if name == "" {
		return &InvalidError{field, "must be named"}
	}
	return nil
}

// Header is the name of the header that the key comes from, "" if it is none.
func (s KeySource) Header() string {
	switch s.kind {
	case keyHeader:
		return s.text
	case keyBearer:
		return "Authorization"
	}
	return ""
}

// String is the text form that [ParseKeySource] reads.
func (s KeySource) String() string {
	switch s.kind {
	case keyHeader:
		return "header " + s.text
	case keyBearer:
		return "bearer"
	case keyConstant:
		return "constant " + s.text
	}
	return "client address"
}

// always reports whether the source has a key for every request.
func (s KeySource) always() bool { return s.kind == keyClientAddress || s.kind == keyConstant }

// key is the request's key, "" if the request has none. A header that may stand
// once and stands more often is an *InvalidError.
func (s KeySource) key(r Request, clients *ClientAddress) (string, error) {
	switch s.kind {
	case keyClientAddress:
		return clients.Key(r), nil
	case keyConstant:
		return s.text, nil
	}
	value, lines := r.Header(s.Header())
	if lines > 1 {
		return "", &InvalidError{s.Header(), "must not be sent more than once"}
	}
	value = strings.Trim(value, " \t")
	if s.kind == keyBearer {
		return hashBearer(value), nil
	}
	if hasKeyPrefix(value) {
		value = headerPrefix + value
	}
	return value, nil
}

const (
	addressPrefix = "ip:"
	bearerPrefix  = "bearer:"
	headerPrefix  = "header:"
)

func hasKeyPrefix(key string) bool {
	return strings.HasPrefix(key, addressPrefix) || strings.HasPrefix(key, bearerPrefix) || strings.HasPrefix(key, headerPrefix)
}

// hashBearer is the key of a bearer token, "" if the value of the header has none.
// The token itself is stored nowhere.
func hashBearer(authorization string) string {
	token := BearerToken(authorization)
	if token == "" {
		return ""
	}
	return bearerPrefix + hashed(token)
}
