package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/redo-go/redo/store/boltstore"
)

// isDatabase reports whether an argument is the URL of a database in Postgres. Otherwise it is the name of a file.
func isDatabase(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}

// noURL refuses a URL in place of a file. The error names its scheme only, because the rest may hold a password.
func noURL(name, things, place string) error {
	if scheme, _, isURL := strings.Cut(name, "://"); isURL {
		return fmt.Errorf("%s are not in %s://: they are in %s", things, scheme, place)
	}
	return nil
}

// withFile opens a file, runs f and closes the file. A missing file is an error, because the store would create it.
func withFile(name string, f func(*boltstore.Store) error) (err error) {
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return failed(fmt.Errorf("there is no file %q", name))
	}
	st, err := boltstore.Open(name)
	if err != nil {
		return failed(err)
	}
	defer func() {
		if closing := st.Close(); err == nil && closing != nil {
			err = failed(closing)
		}
	}()
	return f(st)
}
