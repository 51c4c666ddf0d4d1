// Package dashboard has the pages that people look at: /dashboard, which shows what
// the audit log says of the traffic, and /docs, which shows the API's description.
// They are files that are embedded in the program; what they show they ask the API
// for, in the browser, with the audit token of who looks. They ask nobody else.
package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
)

//go:embed web
var web embed.FS

// pagePolicy lets a page run its own scripts, use its own styles and ask its own
// server, and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// policies are what pages by their first directory may do besides.
var policies = map[string]string{
	"dashboard": pagePolicy + "; require-trusted-types-for 'script'; trusted-types 'none'", // no text becomes markup or script
	"docs":      pagePolicy,
}

// Pages are what answers at each path.
func Pages() map[string]http.Handler { return maps.Clone(pages()) }

// pages are made once: there may be many servers in a process.
var pages = sync.OnceValue(func() map[string]http.Handler {
	pages := map[string]http.Handler{}
	for root, policy := range policies {
		fs.WalkDir(web, "web/"+root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			at := strings.TrimPrefix(name, "web")
			if path.Base(name) == "index.html" {
				at = path.Dir(at)
			}
			pages[at] = newFile(name, policy)
			return nil
		})
	}
	return pages
})

// types are the media types of the files. The system's own table could say otherwise.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".txt": "text/plain; charset=utf-8",
}

// file is a file that is always the same as long as the program runs.
type file struct {
	contentType string
	policy      string        // Content-Security-Policy
	name        string        // in web, where it takes no memory
	packed      func() []byte // in gzip
	tag         func() string // of the contents
}

func newFile(name, policy string) *file {
	f := &file{contentType: types[path.Ext(name)], policy: policy, name: name}
	f.tag = sync.OnceValue(func() string {
		sum := sha256.New()
		f.writeTo(sum)
		return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:12])
	})
	f.packed = sync.OnceValue(func() []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		f.writeTo(w)
		w.Close()
		return b.Bytes()
	})
	return f
}

// writeTo writes what is in the file. That it can be read was seen when it was embedded.
func (f *file) writeTo(w io.Writer) {
	content, err := web.Open(f.name)
	if err != nil {
		return
	}
	defer content.Close()
	io.Copy(w, content)
}

func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", f.contentType)
	header.Set("Content-Security-Policy", f.policy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-cache")
	header.Set("Vary", "Accept-Encoding")
	packs, tag := takesGzip(r.Header), f.tag()
	if packs {
		tag += "-gzip"
		header.Set("Content-Encoding", "gzip")
	}
	tag = `"` + tag + `"`
	header.Set("ETag", tag)
	if has(r.Header, tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if packs {
		w.Write(f.packed())
		return
	}
	f.writeTo(w)
}

// takesGzip reports whether the client accepts gzip (RFC 9110 section 12.5.3). One that
// says nothing of it, or only "*", is answered without.
func takesGzip(header http.Header) bool {
	for coding := range strings.SplitSeq(strings.Join(header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return !refused.MatchString(weight)
		}
	}
	return false
}

// refused is the weight of what is not acceptable.
var refused = regexp.MustCompile(`^\s*[qQ]=0(\.0{0,3})?\s*$`)

// has reports whether the client has the file of the tag already (RFC 9110 section
// 13.1.2). Tags are compared weakly: proxies that compress make weak ones of them.
func has(header http.Header, tag string) bool {
	for known := range strings.SplitSeq(strings.Join(header.Values("If-None-Match"), ","), ",") {
		if known = strings.TrimSpace(known); known == "*" || strings.TrimPrefix(known, "W/") == tag {
			return true
		}
	}
	return false
}
