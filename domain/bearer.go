package domain

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// BearerToken is the token in the value of an Authorization header (RFC 6750
// section 2.1), "" if it has none. The scheme's case does not matter.
func BearerToken(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}

// hashed is 128 bits of the SHA-256 of a secret, in hexadecimal.
func hashed(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:16])
}
