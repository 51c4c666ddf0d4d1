package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestACellIsNoLongerThanFortyCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "alice": "alice", "a b": "a b", strings.Repeat("k", 40): strings.Repeat("k", 40),
		strings.Repeat("a", 30) + strings.Repeat("z", 30): strings.Repeat("a", 20) + "…" + strings.Repeat("z", 19),
		strings.Repeat("é", 60):                           strings.Repeat("é", 20) + "…" + strings.Repeat("é", 19),
		" a":                                              `" a"`, "a ": `"a "`, "alice  60  0": `"alice  60  0"`, "a\tb": `"a\tb"`, `"a"`: `"\"a\""`, " é": `" é"`,
		" " + strings.Repeat("k", 60): `" ` + strings.Repeat("k", 18) + "…" + strings.Repeat("k", 18) + `"`,
	} {
		if got := cell(text); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
}

// A key cannot look like the columns beside it, nor push them away.
func TestTablesShowKeysAsWhatTheyAre(t *testing.T) {
	c := newCommand(t)
	long := strings.Repeat("x", 300)
	keys := []string{"bob  allowed  1", long, " alice"}
	logCalls(t, len(keys), func(call *domain.Call) {
		call.Key = keys[call.Key[0]-'1']
		call.Path = "/" + long
	})
	short := strings.Repeat("x", 20) + "…" + strings.Repeat("x", 19)
	t.Setenv("LC_ALL", "C.UTF-8")
	c.want(0, []string{"calls"}, ` "bob  allowed  1" `, " "+short+" ", ` " alice" `, " /"+short[1:]+" r\n")
	c.want(0, []string{"usage"}, `"bob  allowed  1" `, short+" ", `" alice" `)
	t.Setenv("LC_ALL", "C")
	c.want(0, []string{"usage"}, strings.Repeat("x", 19)+"..."+strings.Repeat("x", 18)+" ")
	for _, args := range [][]string{{"calls", "--json"}, {"calls", "--csv"}, {"usage", "--json"}} {
		c.want(0, args, long, "bob  allowed  1")
	}
}

// Who follows the log reads down its columns.
func TestColumnsStayWhereTheFirstPageHasThem(t *testing.T) {
	var out strings.Builder
	print := callTable(&out)
	call := func(id int64, key string, limit int64) domain.Call {
		return domain.Call{ID: id, Kind: domain.CallHit, At: time.Unix(0, 0), Policy: "default", Key: key, Cost: 1, Hits: 1, Limit: limit, Origin: domain.Origin{Method: "GET", Path: "/ping", RequestID: "r"}}
	}
	for _, page := range [][]domain.Call{{call(1, "alice", 60)}, {}, {call(2, "b", domain.Unlimited)}, {call(1_234_567, "a-very-long-key", 1)}, {call(3, "c", 60)}} {
		if err := print(page); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "ID ") {
		t.Fatalf("%s", out.String())
	}
	column := strings.Index(lines[0], "REQUEST")
	for i, line := range lines[1:] {
		if at := strings.Index(line, "GET"); (at == column) != (i != 2) || i == 2 && at != column+6 { // 1 and 5 characters too long
			t.Errorf("line %d has its request at %d, the head at %d:\n%s", i, at, column, out.String())
		}
		if utf8.RuneCountInString(line) > 200 {
			t.Errorf("%s", line)
		}
	}
}
