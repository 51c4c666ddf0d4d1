package ratelimitlog_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/domain"
)

const (
	rawKey  = "sk_live_abc"
	secret  = "0123456789abcdef0123456789abcdef"
	another = "fedcba9876543210"
)

// secretFile is a file with a secret as echo writes it.
func secretFile(t testing.TB, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// hashedKey is what a secret makes of a key.
func hashedKey(secret, key string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(key))
	return "hmac:" + hex.EncodeToString(mac.Sum(nil))
}

// wantNoRawKey looks for the key in something.
func wantNoRawKey(t testing.TB, where, text string) {
	t.Helper()
	if i := strings.Index(text, rawKey); i >= 0 {
		t.Errorf("the key is in %s: …%.200q", where, text[max(i-100, 0):])
	}
}

func TestWithHashKeysNoKeyIsStoredLoggedOrShownAndLimitsHold(t *testing.T) { // case 164
	forEachEngine(t, func(t *testing.T, configure func(*ratelimitlog.Config)) {
		file, hashed := secretFile(t, secret), hashedKey(secret, rawKey)
		start := func() *service {
			return servePoliciesWith(t, contractPolicies+"  - {path: /bearer, key: bearer, policies: [slide]}\n", func(c *ratelimitlog.Config) {
				configure(c)
				c.AdminToken, c.LogLevel, c.HashKeys = adminToken, "debug", file
			})
		}
		s := start()
		do := func(status int, method, target, body string, headers ...string) string {
			t.Helper()
			a := s.send(t, http.DefaultClient, method, target, body, append(bearer(adminToken), headers...)...)
			if a.status != status {
				t.Errorf("%s %s: %d %s, want %d", method, target, a.status, a.body, status)
			}
			wantNoRawKey(t, "the answer to "+method+" "+target, fmt.Sprint(a.header, a.body))
			return a.body
		}
		wantIn := func(text string, parts ...string) {
			t.Helper()
			for _, part := range parts {
				if !strings.Contains(text, part) {
					t.Errorf("%s\nlacks %s", text, part)
				}
			}
		}
		ping := []string{"X-Client-Key", rawKey}

		for range 3 {
			wantIn(do(200, "GET", "/ping", "", ping...), `"key":"`+hashed+`"`)
		}
		for range 2 { // the store decides the first, the memory the second
			wantIn(do(429, "GET", "/ping", "", ping...), "exceeded for key '"+hashed+"'.")
		}
		wantIn(do(200, "POST", "/v1/hits", `{"key":"`+rawKey+`","policies":["daily"]}`), hashed)
		do(429, "POST", "/v1/hits", `{"key":"`+rawKey+`","policies":["daily","default"]}`)
		do(404, "GET", "/both/x", "") // charged all the same
		for range 4 {
			if a := s.request(t, "GET", "/bearer", bearer(rawKey)...); a.status != 404 {
				t.Errorf("by a token: %d", a.status)
			}
		}
		if a := s.request(t, "GET", "/bearer", bearer(rawKey)...); a.status != 429 {
			t.Errorf("the fifth by a token: %d", a.status)
		} else {
			wantNoRawKey(t, "the refusal of a token", a.body)
			wantIn(a.body, "for key 'hmac:")
		}

		for _, key := range []string{rawKey, hashed} { // either way
			wantIn(do(200, "GET", "/status?key="+key, ""), `"key":"`+hashed+`"`, `"count":6,"refused":3,"remaining":0`)
			wantIn(do(200, "GET", "/v1/counters?key="+key, ""), `"policy":"daily","allowed":true,"limit":5,"count":1,`)
			quota := "/v1/quotas?policy=default&key=" + key
			wantIn(do(404, "GET", quota, ""), "no-quota")
			wantIn(do(200, "PUT", quota, `{"limit":5}`), `"key":"`+hashed+`"`)
			wantIn(do(200, "GET", "/v1/quotas?policy=default&key="+hashed, ""), `"limit":5`)
			wantIn(do(200, "GET", "/v1/quotas?policy=default&key="+rawKey, ""), `"limit":5`)
			wantIn(do(200, "GET", "/v1/quotas?policy=default", ""), `{"quotas":[{"policy":"default","key":"`+hashed+`","limit":5}]}`)
			wantIn(do(200, "GET", "/status?key="+key, ""), `"limit":5`)
			do(204, "DELETE", quota, "")
		}
		wantIn(do(200, "GET", "/status?key=ip:127.0.0.1&policy=daily", ""), `"count":1`)

		for range 3 { // the hashed form is a key like any other to a client
			wantIn(do(200, "GET", "/ping", "", "X-Client-Key", hashed), `"key":"`+hashedKey(secret, hashed)+`"`)
		}
		do(429, "GET", "/ping", "", "X-Client-Key", hashed)
		wantIn(do(200, "POST", "/v1/hits", `{"key":"`+hashed+`","policies":["slide"],"cost":0}`), `"key":"`+hashedKey(secret, hashed)+`"`)
		wantIn(do(200, "GET", "/status?key="+rawKey, ""), `"count":6,"refused":3,`)

		for _, malformed := range []string{ // whose errors might quote what was sent
			"/status?key=" + rawKey + "\r\n\r\n",
			"GET /ping HTTP/1.1\r\nHost: x\r\nX-Client-Key: " + rawKey + "\r\nX bad: x\r\n\r\n",
			"GET /ping HTTP/1.1\r\nHost: x\r\nX-Client-Key: " + rawKey + "\r\nX-Long: " + strings.Repeat("x", 20000) + "\r\n\r\n",
			"POST /v1/hits HTTP/1.1\r\nHost: x\r\nX-Client-Key: " + rawKey + "\r\nTransfer-Encoding: chunked\r\n\r\n" + rawKey + "\r\n",
		} {
			wantNoRawKey(t, fmt.Sprintf("the answer to %.60q", malformed), s.raw(t, malformed).body)
		}
		for _, target := range []string{"/status?key=" + rawKey + "%00", "/status?key=" + rawKey + "%zz", "/status?key=" + rawKey + "&key=x", "/v1/counters?key=" + rawKey + "%ff"} {
			do(422, "GET", target, "")
		}
		do(422, "GET", "/ping", "", "X-Client-Key", rawKey, "X-Client-Key", rawKey)
		do(422, "GET", "/ping", "", "X-Client-Key", rawKey+"\xff")
		do(422, "POST", "/v1/hits", `{"key":"`+rawKey+`\u0000","policies":["daily"]}`)
		do(422, "POST", "/v1/hits", `{"key":"`+rawKey+`","policies":["daily"],"cost":6}`)
		do(422, "POST", "/v1/hits", `{"key":"`+rawKey+`" "`)
		do(404, "POST", "/v1/hits", `{"key":"`+rawKey+`","policies":["nope"]}`)

		wantNoRawKey(t, "the metrics", s.request(t, "GET", "/metrics").body)
		s.stop()
		wantNoRawKey(t, "the log", s.log.String())
		if !strings.Contains(s.log.String(), `"path":"/ping"`) {
			t.Error("there are no access lines")
		}
		if s.dsn == "sqlite::memory:" {
			return
		}
		stored := everythingStored(t, s.config)
		wantNoRawKey(t, "the store", stored)
		wantIn(stored, hashed)

		s = start()
		do(429, "GET", "/ping", "", ping...)
		for _, key := range []string{rawKey, hashed} {
			do(204, "DELETE", "/v1/counters?key="+key, "")
			do(200, "GET", "/ping", "", ping...)
			wantIn(do(200, "GET", "/status?key="+key, ""), `"count":1,"refused":0`)
		}
		s.stop()
		wantNoRawKey(t, "the log", s.log.String())
		wantNoRawKey(t, "the store", everythingStored(t, s.config))
		calls := keyCalls(t, s.config, rawKey)
		if n := len(calls); n == 0 || len(keyCalls(t, s.config, hashed)) != n {
			t.Errorf("%d calls of the key", n)
		}
		for _, call := range calls {
			if call.Key != hashed {
				t.Errorf("%+v", call)
			}
		}

		file = secretFile(t, another)
		s = start()
		wantIn(do(200, "GET", "/status?key="+rawKey, ""), `"key":"`+hashedKey(another, rawKey)+`"`, `"count":0`)
	})
}

// everythingStored is all that the stores of a configuration keep, as text.
func everythingStored(t testing.TB, config ratelimitlog.Config) string {
	t.Helper()
	var all bytes.Buffer
	ctx := context.Background()
	for _, dsn := range []string{config.DSN, config.AuditDSN} {
		scheme, rest, _ := strings.Cut(dsn, ":")
		switch scheme {
		case "sqlite":
			files, err := filepath.Glob(rest + "*") // with -wal and -shm
			if err != nil || len(files) == 0 {
				t.Fatalf("%v: %v", files, err)
			}
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				all.Write(data)
			}
		case "postgres":
			conn, err := pgx.Connect(ctx, dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)
			for _, table := range []string{"rate_limit_windows", "api_calls", "rate_limit_quotas", "api_call_blocks", "api_calls_by_key", "api_call_prunes"} {
				var text string
				if err := conn.QueryRow(ctx, `SELECT coalesce(string_agg(`+table+`::text, ' '), '') FROM `+table).Scan(&text); err != nil {
					t.Fatal(err)
				}
				all.WriteString(text)
			}
		case "redis":
			address, prefix, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "?prefix=")
			client := redis.NewClient(&redis.Options{Addr: address})
			defer client.Close()
			names := client.Scan(ctx, 0, prefix+"*", 1000).Iterator()
			for names.Next(ctx) {
				fmt.Fprintln(&all, names.Val(), client.HGetAll(ctx, names.Val()).Val())
			}
			if err := names.Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all.String()
}

// keyCalls are the calls of a key, by the history of a configuration.
func keyCalls(t testing.TB, config ratelimitlog.Config, key string) []domain.Call {
	t.Helper()
	history, cleanup, err := ratelimitlog.NewHistory(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer cleanup()
	calls, err := history.Calls(t.Context(), domain.CallQuery{Key: key, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// While the server runs, what is not in the database yet is in its -wal.
func TestNoKeyIsInTheFilesOfARunningServer(t *testing.T) { // case 164
	file := secretFile(t, secret)
	s := serve(t, func(c *ratelimitlog.Config) { c.HashKeys = file })
	for range 10 {
		s.ping(t, rawKey)
	}
	s.request(t, "GET", "/status?key="+rawKey)
	stored := everythingStored(t, s.config)
	wantNoRawKey(t, "the files", stored)
	if !strings.Contains(stored, hashedKey(secret, rawKey)) {
		t.Error("there is nothing in the files")
	}
}

func TestWithoutHashKeysAKeyThatLooksHashedIsOneLikeAnyOther(t *testing.T) {
	s := serve(t, nil)
	key := hashedKey(secret, rawKey)
	s.ping(t, key)
	s.ping(t, rawKey)
	for _, key := range []string{key, rawKey} {
		if a := s.request(t, "GET", "/status?key="+key); !strings.Contains(a.body, `{"key":"`+key+`","policy":"default","limit":3,"count":1,`) {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

func TestASecretThatCannotBeUsedIsToldButNotShown(t *testing.T) { // case 164
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for file, want := range map[string]string{
		filepath.Join(dir, "none"):                   "names a file that cannot be read: no such file or directory",
		dir:                                          "names a file that cannot be read: is a directory",
		write("empty", ""):                           "names a file whose secret is 0 bytes long, at least 16 are needed",
		write("15", "s3cret s3cret s\n"):             "names a file whose secret is 15 bytes long, at least 16 are needed",
		write("4097", strings.Repeat("s", 4097)):     "names a file whose secret is longer than 4096 bytes",
		write("1 MB", strings.Repeat("s3cret", 2e5)): "names a file whose secret is longer than 4096 bytes",
		"s3cret s3cret s3cret":                       "names a file that cannot be read: no such file or directory", // the secret in place of its file
	} {
		config := ratelimitlog.Config{DSN: "sqlite::memory:", HashKeys: file}
		_, _, errServer := ratelimitlog.NewServer(t.Context(), config)
		_, _, errLimiter := ratelimitlog.NewLimiter(t.Context(), config)
		_, _, errHistory := ratelimitlog.NewHistory(t.Context(), config)
		for _, err := range []error{errServer, errLimiter, errHistory} {
			var invalid *domain.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != "hash-keys" || invalid.Reason != want || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %v, want that it %s", file, err, want)
			}
		}
	}
	for _, text := range []string{"0123456789abcde\n\n", strings.Repeat("s", 4096) + "\n"} { // one newline is trimmed
		_, cleanup, err := ratelimitlog.NewLimiter(t.Context(), ratelimitlog.Config{DSN: "sqlite::memory:", HashKeys: write("fits", text)})
		if err != nil {
			t.Errorf("%d bytes: %v", len(text), err)
			continue
		}
		cleanup()
	}
}

func TestASecretThatEverybodyCanReadIsWarnedOf(t *testing.T) {
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o604: true, 0o644: true} {
		file := secretFile(t, secret)
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		s := serve(t, func(c *ratelimitlog.Config) { c.HashKeys = file })
		s.ping(t, "k")
		s.stop()
		log := s.log.String()
		if n := strings.Count(log, "can be read by everybody"); n > 1 || warned != (n == 1) || strings.Contains(log, secret) {
			t.Errorf("mode %o: %s", mode, log)
		}
	}
}
