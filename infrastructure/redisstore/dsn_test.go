package redisstore

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestDSNsAreRead(t *testing.T) {
	for dsn, want := range map[string]location{
		"redis://localhost":                                {hosts: []string{"localhost:6379"}},
		"redis://127.0.0.1:7000/":                          {hosts: []string{"127.0.0.1:7000"}},
		"redis://[::1]:7000/15":                            {hosts: []string{"[::1]:7000"}, db: 15},
		"redis://[::1]":                                    {hosts: []string{"[::1]:6379"}},
		"rediss://user:p%40ss@redis.example:1/2":           {tls: true, user: "user", password: "p@ss", hosts: []string{"redis.example:1"}, db: 2},
		"redis://:a:b@c@h":                                 {password: "a:b@c", hosts: []string{"h:6379"}},
		"redis://user@h":                                   {user: "user", hosts: []string{"h:6379"}},
		"redis://h?prefix=a:b&cluster=false":               {hosts: []string{"h:6379"}, prefix: "a:b"},
		"redis://h/0?prefix=%40%2F":                        {hosts: []string{"h:6379"}, prefix: "@/"},
		"redis://h:1?cluster=true":                         {hosts: []string{"h:1"}, cluster: true},
		"redis://u:p@h1:1,h2,[::1]:3/0?prefix=limit%20":    {user: "u", password: "p", hosts: []string{"h1:1", "h2:6379", "[::1]:3"}, cluster: true, prefix: "limit "},
		"redis://%2F%3F%23%25:%2F%3F%23%25@h?cluster=true": {user: "/?#%", password: "/?#%", hosts: []string{"h:6379"}, cluster: true},
	} {
		if want.prefix == "" {
			want.prefix = "ratelimitlog"
		}
		if got, err := parseDSN(dsn); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, want %+v; %v", dsn, got, want, err)
		}
	}
}

func TestWhatIsNoDSNIsRefusedAndNotShown(t *testing.T) {
	for _, dsn := range []string{
		"", "secret", "http://secret", "redis:secret", "redis://", "redis:///0", "redis://:secret@", "redis://:secret@/1",
		"redis://:secret", "redis://h:secret", "redis://:sec/secret@h", "redis://:sec?secret@h", "redis://:sec#secret@h",
		"redis://:secret%zz@h", "redis://h/secret", "redis://h/-1", "redis://h/1/2", "redis://h/99999999999", "redis://h#secret",
		"redis://:secret@h:0", "redis://:secret@h:65536", "redis://:secret@h:-1", "redis://:secret@::1", "redis://:secret@[::1", "redis://:secret@h h",
		"redis://:secret@h,", "redis://:secret@,h", "redis://:secret@h1,h2/1", "redis://:secret@h/1?cluster=true", "redis://h?prefix=a@secret",
		"redis://h?secret", "redis://h?secret=1", "redis://h?Prefix=secret", "redis://h?prefix=", "redis://h?prefix=a{secret}", "redis://h?prefix=a%0Asecret",
		"redis://h?prefix=secret&prefix=b", "redis://h?cluster=secret", "redis://h?cluster", "redis://h1,h2?cluster=false", "redis://[secret]x", "redis://secret]", "redis://h?prefix=%secret", "redis://h?a;secret",
	} {
		_, err := Open(dsn)
		var invalid *domain.InvalidError
		if !errors.As(err, &invalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", dsn, err)
		}
	}
}
