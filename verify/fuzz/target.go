package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A target is a fuzz function.
type target struct{ dir, name string }

func (t target) String() string { return filepath.ToSlash(t.dir) + " " + t.name }

// corpus is the directory of the target's inputs that every run of go test reads.
func (t target) corpus() string { return filepath.Join(t.dir, "testdata", "fuzz", t.name) }

var declaration = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(\w+ \*testing\.F\)`)

// targetsOf returns the targets of the directories. A directory that ends in /... stands for all below it, and no
// directory for all below the working directory. Each of them has a target.
func targetsOf(dirs []string) ([]target, error) {
	if len(dirs) == 0 {
		dirs = []string{"./..."}
	}
	var all []target
	for _, dir := range dirs {
		root, deep := strings.CutSuffix(filepath.ToSlash(dir), "/...")
		found, err := targetsIn(filepath.Clean(root), deep)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: no test file there has a fuzz target", dir)
		}
		all = append(all, found...)
	}
	return all, nil
}

func targetsIn(root string, deep bool) ([]target, error) {
	var found []target
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			hidden := strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata" || e.Name() == "node_modules"
			if path != root && (!deep || hidden) {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range declaration.FindAllSubmatch(source, -1) {
			found = append(found, target{filepath.Dir(path), string(m[1])})
		}
		return nil
	})
	return found, err
}
