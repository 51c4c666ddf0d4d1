package ratelimitlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// provideKeyHasher reads the secret of Config.HashKeys, once: the file may be a pipe.
// Errors tell neither the secret nor the name of the file, which may be the secret by
// mistake.
func provideKeyHasher(config Config) (domain.KeyHasher, error) {
	if config.HashKeys == "" {
		return domain.KeyHasher{}, nil
	}
	secret, err := readSecret(config.HashKeys)
	if err != nil {
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
			err = failed.Err
		}
		return domain.KeyHasher{}, &domain.InvalidError{Field: "hash-keys", Reason: fmt.Sprintf("names a file that cannot be read: %v", err)}
	}
	keys, err := domain.NewKeyHasher(secret)
	if err != nil {
		return keys, &domain.InvalidError{Field: "hash-keys", Reason: fmt.Sprintf("names a file whose %v", err)}
	}
	return keys, nil
}

// readSecret reads a file without the newline at its end, and no more of it than is
// needed to see that it is too long.
func readSecret(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	secret, err := io.ReadAll(io.LimitReader(f, domain.MaxSecretBytes+2))
	return bytes.TrimSuffix(secret, []byte("\n")), err
}

// readByOthers reports whether others than the owner of a file and its group may
// read it.
func readByOthers(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
}
