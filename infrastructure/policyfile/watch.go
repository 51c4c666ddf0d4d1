package policyfile

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Watch reads the file now and then and tells changed what became of it: the
// rules, or why they cannot be had. It tells nothing while the file stays as it
// is, and an error once. It looks at the contents, so that it does not matter how
// the file changes: written in place, renamed over, or through a symbolic link that
// is pointed elsewhere. It returns when the context ends.
func Watch(ctx context.Context, file string, every time.Duration, changed func(domain.Rules, error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	w := watcher{file: file, changed: changed}
	for {
		w.look()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// watcher remembers what it told last.
type watcher struct {
	file     string
	changed  func(domain.Rules, error)
	told     bool
	contents []byte // nil if the file could not be read
	failure  string // why not
}

func (w *watcher) look() {
	contents, err := readFile(w.file)
	if err != nil {
		if failure := err.Error(); !w.told || w.failure != failure {
			w.told, w.contents, w.failure = true, nil, failure
			w.changed(domain.Rules{}, fmt.Errorf("read policies: %w", err))
		}
		return
	}
	if w.told && w.failure == "" && bytes.Equal(contents, w.contents) {
		return
	}
	w.told, w.contents, w.failure = true, contents, ""
	w.changed(Parse(w.file, contents))
}
