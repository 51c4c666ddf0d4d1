package gormstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Backup copies the database that dsn names into a new file, as of one moment, while
// others may go on to write. What exists is not overwritten: that is a
// [*domain.InvalidError]. When Backup returns nil the copy is on disk, in one file,
// and open to those who may read the database; if it fails nothing is left of it.
// The parts of the copy go to file+".partial" first.
//
// The database's write-ahead log cannot begin anew until the copy is made.
func Backup(ctx context.Context, dsn, file string) (err error) {
	at, err := parseDSN(dsn)
	if err != nil {
		return err
	}
	s, err := OpenReader(ctx, dsn) // it is there, and of this program's schema
	if err != nil {
		return err
	}
	defer s.Close()
	info, err := os.Stat(at.path)
	if err != nil {
		return err
	}
	partial := file + ".partial"
	for _, path := range []string{file, partial} { // empty, to be taken by nobody else
		if err := create(path, info.Mode().Perm()); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				os.Remove(path)
			}
		}()
	}
	// A connection of its own: one that may do nothing but query may not do this.
	pool := openPool(at.uri(copier()), 1)
	defer pool.Close()
	if _, err := pool.ExecContext(ctx, `VACUUM INTO ?`, location{path: partial}.uri(nil)); err != nil {
		return fmt.Errorf("copy %s to %s: %w", dsn, file, err)
	}
	if err := flush(partial); err != nil {
		return err
	}
	if err := os.Rename(partial, file); err != nil {
		return err
	}
	return flush(filepath.Dir(file))
}

func create(path string, mode os.FileMode) error {
	made, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, os.ErrExist) {
		return &domain.InvalidError{Field: "file", Reason: fmt.Sprintf("is %s, which exists already", path)}
	}
	if err != nil {
		return err
	}
	return made.Close()
}

// flush waits until the disk has a file or a directory.
func flush(path string) error {
	opened, err := os.Open(path)
	if err != nil {
		return err
	}
	defer opened.Close()
	return opened.Sync()
}
