package domain

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	// MinSecretBytes and MaxSecretBytes bound the secret of a [KeyHasher].
	MinSecretBytes = 16
	MaxSecretBytes = 4096

	hashedPrefix = "hmac:"
)

// KeyHasher makes of keys what is stored and shown in their place, so that a key
// that is a secret is nowhere but in the request that brings it: "hmac:" and the
// HMAC-SHA-256 (RFC 2104) of the key, as 64 lower-case hexadecimal digits. The zero
// value leaves keys as they are. It is safe for concurrent use.
type KeyHasher struct {
	pads *hmacPads // nil leaves keys as they are
}

// hmacPads are a secret as HMAC wants it (RFC 2104 section 2). They do not change.
type hmacPads struct{ inner, outer [sha256.BlockSize]byte }

// NewKeyHasher makes a hasher. A secret that is too short or too long is an *InvalidError.
func NewKeyHasher(secret []byte) (KeyHasher, error) {
	switch {
	case len(secret) < MinSecretBytes:
		return KeyHasher{}, &InvalidError{"secret", fmt.Sprintf("is %d bytes long, at least %d are needed", len(secret), MinSecretBytes)}
	case len(secret) > MaxSecretBytes:
		return KeyHasher{}, &InvalidError{"secret", fmt.Sprintf("is longer than %d bytes", MaxSecretBytes)}
	}
	if len(secret) > sha256.BlockSize {
		sum := sha256.Sum256(secret)
		secret = sum[:]
	}
	pads := &hmacPads{}
	for i := range sha256.BlockSize {
		pads.inner[i], pads.outer[i] = 0x36, 0x5c
	}
	for i := range secret {
		pads.inner[i] ^= secret[i]
		pads.outer[i] ^= secret[i]
	}
	return KeyHasher{pads}, nil
}

// Hash is what stands for the key of a hit. A key that already looks hashed is hashed
// like any other: clients must not be able to name a key that is not theirs. A key
// that [CheckKey] refuses is returned as it is, for whoever checks it then to refuse.
func (h KeyHasher) Hash(key string) string {
	if h.pads == nil {
		return key
	}
	return h.hash(key)
}

// Lookup is Hash for those who ask for a key or change what is kept of it: they may
// name it as it is shown, too. A key that is hashed already is returned as it is.
func (h KeyHasher) Lookup(key string) string {
	if h.pads == nil || isHashed(key) {
		return key
	}
	return h.hash(key)
}

func (h KeyHasher) hash(key string) string {
	if CheckKey(key) != nil {
		return key
	}
	// By hand and on the stack: package hmac takes half a kilobyte of memory for each key.
	var message [sha256.BlockSize + MaxKeyBytes]byte
	n := copy(message[:], h.pads.inner[:])
	n += copy(message[n:], key)
	inner := sha256.Sum256(message[:n])
	n = copy(message[:], h.pads.outer[:])
	n += copy(message[n:], inner[:])
	outer := sha256.Sum256(message[:n])

	var text [len(hashedPrefix) + 2*sha256.Size]byte
	hex.Encode(text[copy(text[:], hashedPrefix):], outer[:])
	return string(text[:])
}

// isHashed reports whether key is just what a hasher makes.
func isHashed(key string) bool {
	digits, ok := strings.CutPrefix(key, hashedPrefix)
	if !ok || len(digits) != 2*sha256.Size {
		return false
	}
	for i := range len(digits) {
		if c := digits[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}
