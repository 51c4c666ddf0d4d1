//go:build linux || darwin || freebsd || netbsd || openbsd

// Package journal keeps counters in one file: a line for each batch, with the
// windows that it changed. Processes on one machine may share the file and stay
// exact. A crash loses no answered hit, a power cut may. The file only grows.
package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Counter implements domain.Counter and domain.Sweeper.
type Counter struct {
	mu      sync.Mutex // between goroutines; the lock of the file is between handles
	file    *os.File
	end     int64 // of what was read
	windows map[domain.WindowID]domain.LedgerWindow
}

func Open(path string) (*Counter, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	return &Counter{file: file, windows: map[domain.WindowID]domain.LedgerWindow{}}, err
}

func (c *Counter) Close() error { return c.file.Close() }

// alone runs f while nobody else reads or writes, and writes what f returns: windows
// that are Changed, and others, which are to be forgotten.
func (c *Counter) alone(ctx context.Context, f func() []domain.LedgerWindow) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := syscall.Flock(int(c.file.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	defer syscall.Flock(int(c.file.Fd()), syscall.LOCK_UN)
	news, err := io.ReadAll(io.NewSectionReader(c.file, c.end, math.MaxInt64-c.end)) // what was written since
	if err != nil {
		return err
	}
	for line := range bytes.Lines(news) {
		var windows []domain.LedgerWindow
		if line[len(line)-1] != '\n' || json.Unmarshal(line, &windows) != nil {
			break // a crash or a full disk cut it: nobody was answered, and the next line goes over it
		}
		c.end += int64(len(line))
		for _, w := range windows {
			if c.windows[w.ID()] = w; !w.Changed {
				delete(c.windows, w.ID())
			}
		}
	}
	windows := f()
	if len(windows) == 0 {
		return nil
	}
	line, err := json.Marshal(windows)
	if err == nil {
		_, err = c.file.WriteAt(append(line, '\n'), c.end) // it is read by whoever comes next
	}
	return err
}

func (c *Counter) fill(ledger *domain.Ledger) *domain.Ledger {
	for i := range ledger.Windows {
		ledger.Windows[i].Tally = c.windows[ledger.Windows[i].ID()].Tally
	}
	return ledger
}

func (c *Counter) Take(ctx context.Context, takes []domain.Take) (taken []domain.Taken, err error) {
	err = c.alone(ctx, func() []domain.LedgerWindow {
		ledger := c.fill(domain.NewLedger(takes))
		taken = ledger.Settle(takes)
		return slices.DeleteFunc(ledger.Windows, func(w domain.LedgerWindow) bool { return !w.Changed })
	})
	return taken, err
}

func (c *Counter) Look(ctx context.Context, slots []domain.Slot) (tallies []domain.Tally, err error) {
	err = c.alone(ctx, func() []domain.LedgerWindow {
		tallies = c.fill(domain.NewLookLedger(slots)).Look(slots)
		return nil
	})
	return tallies, err
}

func (c *Counter) Reset(ctx context.Context, policy, key string) error {
	_, err := c.forget(ctx, math.MaxInt, func(w domain.LedgerWindow) bool { return w.Policy == policy && w.Key == key })
	return err
}

func (c *Counter) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	return c.forget(ctx, limit, func(w domain.LedgerWindow) bool { return !w.Expires.After(now) })
}

func (c *Counter) forget(ctx context.Context, limit int, which func(domain.LedgerWindow) bool) (n int, err error) {
	err = c.alone(ctx, func() (gone []domain.LedgerWindow) {
		for _, w := range c.windows {
			if w.Changed = false; len(gone) < limit && which(w) {
				gone = append(gone, w)
			}
		}
		n = len(gone)
		return gone
	})
	return n, err
}
