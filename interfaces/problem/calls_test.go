package problem_test

import (
	"encoding/csv"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

func TestACallHasTheMembersOfItsKind(t *testing.T) {
	at := time.Date(2026, 1, 1, 9, 0, 10, 50_000_000, time.FixedZone("", 9*3600))
	for _, c := range []struct {
		call      domain.Call
		json, csv string
	}{
		{
			domain.Call{ID: 7, Kind: domain.CallHit, At: at, Policy: "p", Key: "k", Cost: 2, Hits: 3, Shadow: true, Count: 8, Refused: 6, Limit: domain.Unlimited,
				WindowStart: window.Start, Schedule: "fixed 1m", Coverage: "refused", Origin: domain.Origin{Method: "GET", Path: "/ping", RequestID: "r"}},
			`{"id":7,"called_at":"2026-01-01T00:00:10.050Z","kind":"hit","policy":"p","key":"k","cost":2,"hits":3,"allowed":false,"shadow":true,"count":8,"refused":6,` +
				`"limit":"unlimited","window_start":"2026-01-01T00:00:00Z","schedule":"fixed 1m","coverage":"refused","method":"GET","path":"/ping","request_id":"r"}`,
			"7,2026-01-01T00:00:10.050Z,hit,p,k,2,3,false,true,8,6,unlimited,2026-01-01T00:00:00Z,fixed 1m,refused,GET,/ping,r,\r\n",
		}, {
			domain.Call{ID: 1, Kind: domain.CallReset, At: window.Start, Policy: "p", Key: "k", Allowed: true, Origin: domain.Origin{Actor: "cli root@host"}},
			`{"id":1,"called_at":"2026-01-01T00:00:00.000Z","kind":"reset","policy":"p","key":"k","cost":0,"hits":0,"allowed":true,"count":0,"refused":0,` +
				`"method":"","path":"","request_id":"","actor":"cli root@host"}`,
			"1,2026-01-01T00:00:00.000Z,reset,p,k,0,0,true,false,0,0,,,,,,,,cli root@host\r\n",
		}, {
			domain.Call{ID: 2, Kind: domain.CallPolicySet, At: window.Start, Policy: "p", Allowed: true, Limit: 0, Schedule: "sliding 10s"},
			`{"id":2,"called_at":"2026-01-01T00:00:00.000Z","kind":"policy_set","policy":"p","key":"","cost":0,"hits":0,"allowed":true,"count":0,"refused":0,` +
				`"limit":0,"schedule":"sliding 10s","method":"","path":"","request_id":""}`,
			"2,2026-01-01T00:00:00.000Z,policy_set,p,,0,0,true,false,0,0,0,,sliding 10s,,,,,\r\n",
		},
	} {
		if got := string(problem.AppendCall(nil, c.call)); got != c.json {
			t.Errorf("JSON %s\nwant %s", got, c.json)
		}
		if got := string(problem.AppendCallCSV(nil, c.call)); got != c.csv {
			t.Errorf("CSV %s\nwant %s", got, c.csv)
		}
	}
}

var (
	formula = regexp.MustCompile(`^[\t\r]|(^|[;\t\r\n])[\pZ]*[-=+@＝＋－＠]`)
	guard   = regexp.MustCompile(`(^|[;\t\r\n])'`)
)

func TestNoTextOfAClientIsAFormulaOrBreaksItsRow(t *testing.T) { // case 161
	for _, text := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "'quoted", "\tx", "\rx", `a"b`, "a,b", "a\nb", " a ", "é", "<img>", `"=1`, "a\xffb",
		"/a;=1;", "/a; +1", ";;-1", "'a;'b;c'", " =1", "\u00a0@x", "＝1", "a\t=1", "a\n-1", "\t=1", "a;b=1", "a '=1"} {
		written := problem.AppendCallCSV([]byte(problem.CallCSVHeader), domain.Call{Kind: domain.CallHit, Key: text, Origin: domain.Origin{Path: text, RequestID: text, Actor: text}})
		rows, err := csv.NewReader(strings.NewReader(string(written))).ReadAll()
		if err != nil || len(rows) != 2 || len(rows[1]) != len(rows[0]) {
			t.Errorf("%q: %q, %v", text, rows, err)
			continue
		}
		for i, name := range rows[0] {
			if name != "key" && name != "path" && name != "request_id" && name != "actor" {
				continue
			}
			cell := rows[1][i]
			if formula.MatchString(cell) {
				t.Errorf("%s of %q is %q", name, text, cell)
			}
			if got := guard.ReplaceAllString(cell, "$1"); got != strings.ToValidUTF8(text, "\uFFFD") {
				t.Errorf("%s of %q reads back as %q", name, text, got)
			}
		}
	}
}

func TestTheColumnsAreTheMembersInTheirOrder(t *testing.T) {
	full := domain.Call{Kind: domain.CallHit, Shadow: true, Schedule: "s", Coverage: "c", Origin: domain.Origin{Actor: "a"}}
	decoder := json.NewDecoder(strings.NewReader(string(problem.AppendCall(nil, full))))
	var names []string
	for i := -1; ; i++ {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		if name, ok := token.(string); ok && i%2 == 0 {
			names = append(names, name)
		}
	}
	if got := strings.Join(names, ",") + "\r\n"; got != problem.CallCSVHeader {
		t.Errorf("members %s, columns %s", got, problem.CallCSVHeader)
	}
}
