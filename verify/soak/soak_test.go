package main

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/verify/internal/dbserver"
)

func TestSoak(t *testing.T) {
	for _, name := range []string{"memory", "bolt", "pebble", "sqlite", "redis", "postgres", "mysql"} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			args := []string{"-store", name, "-for", "2s", "-every", "100ms", "-workers", "8"}
			err := run(t.Context(), args, &out)
			if errors.Is(err, dbserver.ErrMissing) && os.Getenv("REDO_TEST_REQUIRE") != "1" {
				t.Skip(err)
			}
			require.NoError(t, err)
			require.Contains(t, out.String(), "operations had one effect each.\nGrowth was not judged")
		})
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"-store tape":                 `-store "tape": it must be memory, bolt, pebble, sqlite, redis, postgres, mysql, or the URL`,
		"-store mysql://root@db/soak": `-store "mysql://root@db/soak": it must be memory`,
		"-for 1ms":                    "-for 1ms: it must be a second or more",
		"-workers 0":                  "-workers 0: it must be 1 or more",
		"-faults 0.5":                 "-faults 0.5: it must be from 0 to 0.3",
	} {
		require.ErrorContains(t, run(t.Context(), strings.Fields(args), &strings.Builder{}), want)
	}
}

// Growth of each figure is noticed. A level that moves is no growth.
func TestGrowthIsNoticed(t *testing.T) {
	level := func(change func(i int, s *sample)) (all []sample) {
		for i := range 40 {
			s := sample{goroutines: 100 + i%7, files: 50 + i%3, heap: 20<<20 + int64(i%5)<<20, stored: 8 << 20}
			change(i, &s)
			all = append(all, s)
		}
		return all
	}
	require.NoError(t, flat(level(func(int, *sample) {})))
	require.ErrorContains(t, flat(make([]sample, 7)), "7 samples show no trend")
	require.NoError(t, flat(level(func(i int, s *sample) { // warming up
		s.heap = min(int64(i), 12) << 20
	})))
	for name, leak := range map[string]func(int, *sample){
		"goroutines grew":    func(i int, s *sample) { s.goroutines += 5 * i },
		"open files grew":    func(i int, s *sample) { s.files += 5 * i },
		"live heap":          func(i int, s *sample) { s.heap += int64(i) << 20 },
		"the store in bytes": func(i int, s *sample) { s.stored += int64(i) << 20 },
	} {
		require.ErrorContains(t, flat(level(leak)), name)
	}
}

// A second effect, a missing one, and one out of order are noticed.
func TestWrongEffectsAreNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		urls []string
		done int64
		want string
	}{
		"one each":     {[]string{"?worker=0&number=1", "?worker=0&number=2"}, 2, ""},
		"a second one": {[]string{"?worker=0&number=1", "?worker=0&number=1"}, 1, "1 operations had 2 effects"},
		"a lost one":   {[]string{"?worker=0&number=1"}, 2, "2 operations had 1 effects"},
		"out of order": {[]string{"?worker=0&number=2", "?worker=0&number=1"}, 2, "1 effects were not the next one"},
		"none":         {nil, 0, "0 operations had 0 effects"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := newLoad(memstore.New(), 1, 0, time.Minute)
			require.NoError(t, err)
			defer func() { require.NoError(t, l.close()) }()
			for _, url := range c.urls {
				resp, err := http.Post(l.service.URL+url, "text/plain", nil) //nolint:noctx // the test's own server
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			}
			l.done[0].Store(c.done)
			if err = l.settle(); c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestPendingOperationsAreResumedFewAtATime(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-pending", "300"}, &out))
	require.Contains(t, out.String(), "requests    300\n")

	p := newPeer()
	defer p.Close()
	p.keys = map[string]int{"a": 1, "b": 1}
	require.NoError(t, p.judge(2))
	require.ErrorContains(t, p.judge(3), "2 keys came for 3 operations")
	p.most = resumeWorkers + 1
	require.ErrorContains(t, p.judge(2), "5 requests came at a time")
	p.keys["a"] = 2
	require.ErrorContains(t, p.judge(2), `the key "a" came 2 times`)
}

func TestAnUploadIsStreamed(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-upload", "134217728"}, &out))
	require.Contains(t, out.String(), "bytes   134217728\n")
}
