package gormstore

import (
	"os"
	"sync"
	"time"
)

// SQLite folds the write-ahead log into the file by itself when the log has
// reached walPages, but begins it anew only at a moment at which nobody reads.
// Under steady reading there is none, and the log would grow for ever.
const (
	walPages = 4096 // 16 MiB
	walBytes = 2 * walPages * 4096
	walPause = 500 * time.Millisecond
)

// wal keeps the write-ahead log of a file short.
type wal struct {
	path string // "" in memory
	// reading is held by each read of this process, to be able to stop them for a moment.
	reading sync.RWMutex
	mu      sync.Mutex
	failed  time.Time // when the log could not be cut
}

// shorten folds the log into the file and cuts it if it has grown beyond
// walBytes. Reads of this process wait for that; those of others must leave a gap
// within the connection's busy timeout, else it is tried again after walPause.
func (s *Store) shorten() {
	if s.wal.path == "" {
		return
	}
	if !s.wal.tooLong() || !s.wal.mu.TryLock() {
		return
	}
	defer s.wal.mu.Unlock()
	if time.Since(s.wal.failed) < walPause {
		return
	}
	s.wal.reading.Lock()
	defer s.wal.reading.Unlock()
	// That a reader is in the way is a row of its answer, not an error.
	s.writer.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
	if s.wal.tooLong() {
		s.wal.failed = time.Now()
	}
}

func (w *wal) tooLong() bool {
	info, err := os.Stat(w.path)
	return err == nil && info.Size() > walBytes
}
