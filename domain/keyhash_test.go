package domain_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func hasher(t testing.TB, secret string) domain.KeyHasher {
	t.Helper()
	h, err := domain.NewKeyHasher([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAHashedKeyIsItsHMACInFull(t *testing.T) { // case 164
	for _, c := range []struct{ secret, key, want string }{ // RFC 4231 section 4.2 and 4.7
		{strings.Repeat("\x0b", 20), "Hi There", "hmac:b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
		{strings.Repeat("\xaa", 131), "Test Using Larger Than Block-Size Key - Hash Key First", "hmac:60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
	} {
		if got := hasher(t, c.secret).Hash(c.key); got != c.want {
			t.Errorf("%q: %s, want %s", c.key, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.SliceOfN(rapid.Byte(), domain.MinSecretBytes, 200).Draw(t, "secret")
		key := rapid.StringN(1, -1, domain.MaxKeyBytes).Filter(func(key string) bool { return domain.CheckKey(key) == nil }).Draw(t, "key")
		h, err := domain.NewKeyHasher(secret)
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(key))
		want := "hmac:" + hex.EncodeToString(mac.Sum(nil))
		if got := h.Hash(key); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got := h.Lookup(key); got != want {
			t.Errorf("looked up %s, want %s", got, want)
		}
		if err := domain.CheckKey(want); err != nil {
			t.Error(err)
		}
	})
}

func TestKeysOfAnyLengthAreHashedInFull(t *testing.T) {
	h, seen := hasher(t, "0123456789abcdef"), map[string]int{}
	for n := 1; n <= domain.MaxKeyBytes; n++ {
		hashed := h.Hash(strings.Repeat("k", n))
		if other, ok := seen[hashed]; ok || len(hashed) != 69 {
			t.Fatalf("%d bytes: %s, as of %d bytes", n, hashed, other)
		}
		seen[hashed] = n
	}
}

func TestOnlyALookupTakesAKeyForHashed(t *testing.T) { // case 164
	h := hasher(t, "0123456789abcdef")
	hashed := h.Hash("alice")
	if h.Lookup(hashed) != hashed || h.Hash(hashed) == hashed {
		t.Error("a hashed key is not looked up as it is, or a client can hit it")
	}
	digits := strings.TrimPrefix(hashed, "hmac:")
	for _, key := range []string{"hmac:", digits, "hmac:" + digits[1:], hashed + "0", "HMAC:" + digits, "hmac:" + strings.ToUpper(digits), "hmac:g" + digits[1:], " " + hashed, "hmac: " + digits[1:]} {
		if h.Lookup(key) != h.Hash(key) || h.Hash(key) == key {
			t.Errorf("%q is taken for hashed", key)
		}
	}
}

func TestWithoutASecretKeysStayAsTheyAre(t *testing.T) {
	var none domain.KeyHasher
	for _, key := range []string{"", "alice", "a\x00", "hmac:", hasher(t, "0123456789abcdef").Hash("alice")} {
		if none.Hash(key) != key || none.Lookup(key) != key {
			t.Errorf("%q is changed", key)
		}
	}
}

func TestHashingMakesNoKeyOfWhatIsNone(t *testing.T) {
	h := hasher(t, "0123456789abcdef")
	for _, key := range []string{"", "a\x00", "\xff", strings.Repeat("k", domain.MaxKeyBytes+1)} {
		for _, got := range []string{h.Hash(key), h.Lookup(key)} {
			if domain.CheckKey(got) == nil {
				t.Errorf("%q became %q", key, got)
			}
		}
	}
}

func TestSecretsThatAreTooShortOrTooLongAreRefusedUnquoted(t *testing.T) {
	for n, ok := range map[int]bool{0: false, 15: false, 16: true, 64: true, 65: true, 4096: true, 4097: false} {
		secret := strings.Repeat("s3", n)[:n]
		_, err := domain.NewKeyHasher([]byte(secret))
		var invalid *domain.InvalidError
		if ok != (err == nil) || !ok && (!errors.As(err, &invalid) || n > 0 && strings.Contains(err.Error(), secret)) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if h := hasher(t, "s3cret s3cret s3cret"); strings.Contains(fmt.Sprintf("%v %+v %#v", h, h, h), "s3cret") {
		t.Error("a hasher that is printed tells its secret")
	}
}

func TestAHasherIsSafeForConcurrentUse(t *testing.T) {
	h := hasher(t, "0123456789abcdef")
	var group sync.WaitGroup
	for i := range 8 {
		key := fmt.Sprint("key", i)
		want := h.Hash(key)
		group.Go(func() {
			for range 1000 {
				if h.Hash(key) != want {
					t.Error("keys are mixed up")
				}
			}
		})
	}
	group.Wait()
}

func BenchmarkHashOfAKey(b *testing.B) {
	for name, h := range map[string]domain.KeyHasher{"hashed": hasher(b, "0123456789abcdef0123456789abcdef"), "as it is": {}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.Hash("sk_live_0123456789abcdef")
			}
		})
	}
}
