package dashboard_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/nene2-ft/ratelimitlog/interfaces/dashboard"
)

func get(page http.Handler, headers ...string) *http.Response {
	r := httptest.NewRequest("GET", "/", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return w.Result()
}

func TestEveryFileIsServedAsWhatItIs(t *testing.T) {
	pages := dashboard.Pages()
	if pages["/dashboard"] == nil || pages["/dashboard/app.js"] == nil || pages["/dashboard/uplot/uPlot.iife.min.js"] == nil {
		t.Fatal("a page is missing")
	}
	for at, page := range pages {
		file := at
		if path.Ext(at) == "" {
			file += "/index.html"
		}
		want, err := os.ReadFile("web" + file)
		if err != nil {
			t.Fatal(err)
		}
		plain := get(page)
		content, err := io.ReadAll(plain.Body)
		if err != nil || string(content) != string(want) {
			t.Errorf("%s is another file, %v", at, err)
		}
		if plain.Header.Get("Content-Type") == "" || !strings.HasPrefix(plain.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self';") {
			t.Errorf("%s: %v", at, plain.Header)
		}
		packed := get(page, "Accept-Encoding", "gzip, br")
		reader, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatal(err)
		}
		if content, err = io.ReadAll(reader); err != nil || string(content) != string(want) || packed.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s packed is another file, %v", at, err)
		}
		for _, answer := range []*http.Response{plain, packed} {
			again := get(page, "Accept-Encoding", map[bool]string{true: "gzip", false: ""}[answer == packed], "If-None-Match", answer.Header.Get("ETag"))
			if again.StatusCode != http.StatusNotModified {
				t.Errorf("%s again: %d", at, again.StatusCode)
			}
		}
		if plain.Header.Get("ETag") == packed.Header.Get("ETag") {
			t.Errorf("%s has one tag for two forms", at)
		}
	}
}

func TestWhatAClientAcceptsAndHasIsReadAsRFC9110Says(t *testing.T) {
	page := dashboard.Pages()["/dashboard/app.js"]
	for accepted, want := range map[string]string{
		"": "", "gzip": "gzip", "GZip": "gzip", "br, gzip;q=0.5": "gzip", "gzip ; q=1.000": "gzip", "gzip;q=0.001": "gzip",
		"gzip;q=0": "", "gzip; Q=0.000": "", "x-gzipfoo": "", "br": "", "*": "",
	} {
		if got := get(page, "Accept-Encoding", accepted).Header.Get("Content-Encoding"); got != want {
			t.Errorf("%q is answered in %q, want %q", accepted, got, want)
		}
	}
	tag := get(page).Header.Get("ETag")
	for has, want := range map[string]int{
		tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, `"x",W/` + tag + `,"y"`: 304, "*": 304, `"x"`: 200, strings.Trim(tag, `"`): 200, "": 200,
	} {
		if got := get(page, "If-None-Match", has).StatusCode; got != want {
			t.Errorf("a client that has %s: %d, want %d", has, got, want)
		}
	}
}
