package gormstore

import (
	"context"
	"fmt"
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
	// How long to wait for the reads under way, which take some milliseconds, and
	// how long to leave a reader alone that did not end in that time.
	walWait  = 250 * time.Millisecond
	walPause = 2 * time.Second
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
// walBytes. It waits for the reads under way and holds up those of this process
// that come; once all is folded in, readers do not use the log any more. Somebody
// else's read that lasts longer than walWait is in the way; then it is tried
// again after walPause.
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
	// The connection first: another transaction may have it for a while, and reads
	// shall not wait for that.
	ctx := context.Background()
	writer, err := s.writer.Conn(ctx)
	if err != nil {
		return
	}
	defer writer.Close()
	s.wal.reading.Lock()
	defer s.wal.reading.Unlock()
	// That a reader is in the way is a row of the answer, not an error; whether it
	// worked is seen by the length of the log.
	wait := func(d time.Duration) {
		writer.ExecContext(ctx, fmt.Sprintf(`PRAGMA busy_timeout = %d`, d.Milliseconds()))
	}
	wait(walWait)
	writer.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	wait(writerWait)
	if s.wal.tooLong() {
		s.wal.failed = time.Now()
	}
}

func (w *wal) tooLong() bool {
	info, err := os.Stat(w.path)
	return err == nil && info.Size() > walBytes
}
