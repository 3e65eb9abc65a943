package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/benchmarks/post"
)

// BenchmarkScenario runs the command's bodies one after the other.
func BenchmarkScenario(b *testing.B) { contest.Bench(b, scenarios()) }

func TestEveryContestantDoesItsWork(t *testing.T) { contest.Check(t, scenarios()) }

func TestNames(t *testing.T) { require.NoError(t, contest.CheckNames(scenarios())) }

// A module under another major version, or one that is no longer measured, would silently go unnamed.
func TestEachMeasuredModuleIsRequired(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	for _, path := range modules() {
		require.Contains(t, string(mod), "\t"+path+" v")
	}
}

// An outcome needs a row in each table, and each cell a figure.
func TestTablesHaveAllContestants(t *testing.T) {
	played := map[string]contest.Outcome{}
	for _, s := range scenarios() {
		o := contest.Outcome{}
		for _, c := range s.Contestants {
			o[c.Name] = []contest.Sample{{N: 1, Ns: 1234567, Allocs: 3}}
		}
		played[s.Name] = o
	}
	got := blocks(played)
	require.Len(t, got, 3)
	page, err := os.ReadFile("../../docs/performance.md")
	require.NoError(t, err)
	for _, b := range got {
		_, err := contest.Find(string(page), b.Name)
		require.NoError(t, err, "-docs has a place for each table")
	}
	require.Contains(t, got[0].Text, "| http.Client | 1,234,567 | 3 | 1234.6 | – | – |\n")
	require.Contains(t, got[0].Text, "| redo.Do | 1,234,567 (1.00–1.00×) | 3 | 1234.6 (1.00–1.00×) |")
	require.Contains(t, got[1].Text, "| boltstore | 1234.6 (1.00–1.00×) | 810 (1.00–1.00×) |\n")
	require.Contains(t, got[2].Text, "| fiber's idempotency |")
	require.NotContains(t, got[2].Text, "–×")

	delete(played, overLoopback)
	require.Len(t, blocks(played), 2, "a table with a scenario that was not measured is not written")
}

func TestThousands(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999.4: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, thousands(v))
	}
}

// The measured caller adds the promises that the library does not make. So all contestants send the same.
func TestMeasuredCallsHaveNewKeys(t *testing.T) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			seen := map[string]bool{}
			call := opened(t, p, func(req *http.Request) (*http.Response, error) {
				require.Len(t, req.Header["Idempotency-Key"], 1)
				seen[req.Header["Idempotency-Key"][0]] = true
				return post.Memory{}.RoundTrip(req)
			})
			for range 2 {
				require.NoError(t, call([]byte("payload")))
			}
			if !p.unequal { // it replays its one operation
				require.Len(t, seen, 2)
			}
		})
	}
}

func TestMeasuredCallsHaveADeadline(t *testing.T) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				call := opened(t, p, func(req *http.Request) (*http.Response, error) {
					select {
					case <-time.After(time.Hour):
						return post.Memory{}.RoundTrip(req)
					case <-req.Context().Done():
						return nil, errors.Join(context.Cause(req.Context()), req.Body.Close())
					}
				})
				start := time.Now()
				require.Error(t, call([]byte("payload")))
				require.Equal(t, post.Deadline, time.Since(start))
			})
		})
	}
}

// opened returns the measured call of a peer over rt.
func opened(t *testing.T, p peer, rt roundTripper) func(payload []byte) error {
	s, err := p.open(target{rt: rt, url: post.MemoryURL, dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.stop()) })
	return p.measured(s)
}

func TestSQLiteSyncsItsLog(t *testing.T) {
	db, err := newSQLite(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2"} {
		var got string
		require.NoError(t, db.QueryRow("PRAGMA "+pragma).Scan(&got))
		require.Equal(t, want, got, pragma)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestRunPrintsThePeers(t *testing.T) {
	var out, errs strings.Builder
	args := []string{"-run", "^" + inMemory + "$", "-rounds", "1", "-slice", "100us", "-dir", t.TempDir()}
	require.Equal(t, 0, run(args, &out, &errs), errs.String())
	require.Contains(t, out.String(), "heimdall")
}
