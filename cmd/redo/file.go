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

// withFile opens a file, runs f and closes the file.
func withFile(name string, f func(*boltstore.Store) error) (err error) {
	on, err := fileEngine(name)
	if err != nil {
		return err
	}
	if on != boltFile {
		return failed(fmt.Errorf("the file %q is %s: this command needs %s", name, on, boltFile))
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

// checkFile returns an error if a file is missing or empty. The store would make a new file of it, without records.
func checkFile(name string) error {
	st, err := os.Stat(name)
	const database = "a database is named by a URL, such as postgres://user@host/database"
	switch {
	case name == "":
		return errors.New("the name of the file is empty")
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(name, "@="):
		return errors.New("there is no such file; " + database) // the name may be a driver's text with a password
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(name, ":"):
		return fmt.Errorf("there is no file %q; %s", name, database)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no file %q", name)
	case err != nil:
		return err
	case st.Mode().IsRegular() && st.Size() == 0:
		return fmt.Errorf("the file %q is empty: it has no store", name)
	}
	return nil
}
