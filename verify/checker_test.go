package verify

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redo-go/redo/store"
)

// A checker that finds nothing wrong with a store that is wrong proves nothing of the others.

// flaws lists each flaw and the checkers that find it. A flaw that needs a second caller does not show in a
// sequence of calls. The number of records that Purge deletes is known exactly only when no other call runs. A
// buffer that is kept between callers is a data race: the race detector finds it.
var flaws = []struct {
	flaw              flaw
	history, sequence bool
}{
	{checkThenReserve, true, false},
	{ownerKept, true, true},
	{ownerStays, true, true},
	{checkThenComplete, true, false},
	{checkThenExtend, true, false},
	{releaseWithoutCAS, true, true},
	{completeBlindly, true, true},
	{extendBlindly, true, true},
	{forgetPending, true, true},
	{releaseSettled, true, true},
	{settleTwice, true, true},
	{staleRead, true, true},
	{fenceRestarts, true, true},
	{fenceStays, true, true},
	{sharedFence, true, true},
	{mismatchOwns, true, true},
	{metaReplaced, true, true},
	{createdAnew, true, true},
	{retentionKept, true, true},
	{emptyIsNil, true, true},
	{outlives, true, true},
	{diesEarly, true, true},
	{leaseForgotten, true, true},
	{lateLoses, true, true},
	{heedless, true, true},
	{bufferKept, false, true},
	{credulous, false, true},
	{lyingError, true, true},
	{strangeError, true, true},
	{purgesLive, true, true},
	{purgeCountsWrong, false, true},
	{listsSettled, true, true},
	{listForgets, true, true},
}

// flawedHistory makes a history, with all that may go wrong in one, on a flawed store.
func flawedHistory(t *testing.T, f flaw, seed uint64) history {
	t.Helper()
	p := inTime(seed)
	p.cancel, p.faults = cancelSoon, f == lyingError
	return bubble(t, p, func(*testing.T) store.Store { return newFlawed(f) })
}

func TestHistoriesFindEveryFlaw(t *testing.T) {
	t.Run(string(noFlaw), func(t *testing.T) {
		for seed := range uint64(20) {
			requireLinearizable(t, flawedHistory(t, noFlaw, seed))
		}
	})
	for _, f := range flaws {
		if !f.history {
			continue
		}
		t.Run(string(f.flaw), func(t *testing.T) {
			const tries = 50
			for seed := range uint64(tries) {
				if v := flawedHistory(t, f.flaw, seed).check(); v != nil {
					t.Logf("found in history %d: %v", seed, v.reason)
					return
				}
			}
			require.Fail(t, "not found", "%d histories", tries)
		})
	}
}

func TestSequencesFindEveryFlaw(t *testing.T) {
	// The same sequences each time, also with -short, of which rapid makes a fifth. They are not shortened, since the test
	// prints none of them.
	checks := "100"
	if testing.Short() {
		checks = "500"
	}
	for name, value := range map[string]string{"rapid.seed": "1", "rapid.shrinktime": "0s", "rapid.checks": checks} {
		before := flag.Lookup(name).Value.String()
		t.Cleanup(func() { set(name, before) })
		set(name, value)
	}
	sequence := func(t *testing.T, f flaw) (found string) {
		synctest.Test(t, func(t *testing.T) {
			found = failure(t, rig{open: func(*rapid.T) (store.Store, timescale) {
				return newFlawed(f), virtual(time.Now())
			}})
		})
		return found
	}
	t.Run(string(noFlaw), func(t *testing.T) { require.Empty(t, sequence(t, noFlaw)) })
	for _, f := range flaws {
		if f.sequence {
			t.Run(string(f.flaw), func(t *testing.T) {
				found := sequence(t, f.flaw)
				require.NotEmpty(t, found, "not found")
				first, _, _ := strings.Cut(found, "\n")
				t.Log(first)
			})
		}
	}
}

// failure returns the first failure of a rig's check, or "" if the check passes. It does not fail t: the test
// expects the check to fail.
func failure(t *testing.T, r rig) string {
	q := &quiet{TB: t}
	done := make(chan struct{})
	go func() { // FailNow ends its goroutine
		defer close(done)
		r.check(q)
	}()
	<-done
	return q.said
}

// A quiet test keeps to itself that it has failed.
type quiet struct {
	rapid.TB
	failed bool
	said   string // first
}

func (q *quiet) Failed() bool { return q.failed }
func (q *quiet) Fail()        { q.failed = true }
func (q *quiet) FailNow()     { q.failed = true; runtime.Goexit() }
func (q *quiet) Error(...any) { q.failed = true }
func (q *quiet) Errorf(format string, args ...any) {
	if q.failed = true; q.said == "" {
		q.said = fmt.Sprintf(format, args...)
	}
}

func (q *quiet) Fatal(...any) { q.FailNow() }
func (q *quiet) Fatalf(format string, args ...any) {
	q.Errorf(format, args...)
	q.FailNow()
}

func (q *quiet) Log(...any)          {}
func (q *quiet) Logf(string, ...any) {}
