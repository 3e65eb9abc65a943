package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// maxInput is the size of the largest input that may become part of a corpus.
const maxInput = 16 << 10

// keep adds to the corpus each input that reaches a statement which the inputs before it do not reach, the smallest
// first. It returns how many they are.
func (s *searcher) keep(ctx context.Context, t target) (kept int, err error) {
	found, err := smallest(s.inputs(t))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	program, err := s.buildCover(ctx, t.dir)
	if err != nil {
		return 0, err
	}
	reached, err := cover(ctx, program, t, "")
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(t.corpus(), 0o755); err != nil {
		return 0, err
	}
	for _, path := range found {
		name := filepath.Base(path)
		input, err := os.ReadFile(path)
		if err != nil {
			return kept, err
		}
		added := filepath.Join(t.corpus(), name)
		if _, err := os.Stat(added); err == nil {
			continue
		}
		if err := os.WriteFile(added, input, 0o644); err != nil {
			return kept, err
		}
		by, err := cover(ctx, program, t, name)
		before := len(reached)
		maps.Copy(reached, by)
		if err == nil && len(reached) > before {
			kept++
			continue
		}
		if err := errors.Join(err, os.Remove(added)); err != nil {
			return kept, err
		}
	}
	_ = os.Remove(t.corpus()) // if it is empty
	return kept, nil
}

// smallest returns the files in dir, without those that are too large, ordered by size.
func smallest(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	var paths []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		if info.Size() <= maxInput {
			path := filepath.Join(dir, e.Name())
			paths, sizes[path] = append(paths, path), info.Size()
		}
	}
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(sizes[a], sizes[b]) })
	return paths, nil
}

// buildCover compiles the tests with counters in the package and in those of its module that it imports.
func (s *searcher) buildCover(ctx context.Context, dir string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-C", dir, "-deps", "-test",
		"-f", "{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}", ".")
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("listing the packages of %s: %w", dir, err)
	}
	own := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(path string) bool {
		return path == "" || strings.ContainsAny(path, " ") || strings.HasSuffix(path, ".test")
	})
	return s.build(ctx, dir, "cover", "-cover", "-covermode=set", "-coverpkg="+strings.Join(own, ","))
}

// cover returns the statements that the input reaches, or without a name those that the whole corpus reaches.
func cover(ctx context.Context, program string, t target, name string) (map[string]bool, error) {
	profile, err := os.CreateTemp("", "cover")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(profile.Name()) }()
	_ = profile.Close()
	pattern := "^" + t.name + "$"
	if name != "" {
		pattern += "/^" + name + "$"
	}
	cmd := exec.CommandContext(ctx, program, "-test.run="+pattern, "-test.coverprofile="+profile.Name())
	cmd.Dir = t.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", pattern, err, out)
	}
	text, err := os.ReadFile(profile.Name())
	if err != nil {
		return nil, err
	}
	reached := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if statement, ok := strings.CutSuffix(strings.TrimSpace(line), " 1"); ok { // 0 or 1, with -covermode=set
			reached[statement] = true
		}
	}
	return reached, nil
}
