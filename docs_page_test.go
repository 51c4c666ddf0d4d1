package ratelimitlog_test

import "testing"

// The page of the API shows the server's own description and sends requests from it, under
// a policy that lets no other script, style or server in; see tab.
func TestThePageOfTheAPIShowsItAndSendsRequests(t *testing.T) {
	s := serve(t, nil)
	b := newTab(t, s.url)
	b.failuresMayBeTold() // the refusal
	b.open("/docs")
	b.wait("document.querySelectorAll('.opblock').length > 30")
	const hit = "#operations-Hits-hit "
	b.click(hit + ".opblock-summary-control")
	b.click(hit + ".try-out__btn")
	b.fill(hit+".body-param__text", `{"key": "alice", "policies": ["default"], "cost": 3}`)
	b.click(hit + ".execute")
	b.wait(`document.querySelector(%q)?.innerText.startsWith("200")`, hit+".live-responses-table tbody .response-col_status")
	b.click(hit + ".execute")
	b.wait(`document.querySelector(%q)?.innerText.startsWith("429")`, hit+".live-responses-table tbody .response-col_status")
	s.wantCounter(t, "default", "alice", 6, 3)
}
