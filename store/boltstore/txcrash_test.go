package boltstore

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

// everywhere, as childTx, has the child killed wherever it is. Another word stops it once it has said that.
const everywhere = "everywhere"

// workInTransactions begins and ends transactions until it is killed, with two-step callers beside them. It says when a
// transaction has written its effect, and again when it is over.
func workInTransactions(path string, out io.Writer) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(word, key string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(out, word, key)
	}
	ctx := context.Background()
	if stop := os.Getenv(childTx); stop != everywhere {
		return transact(ctx, s, "k", func(word, key string) {
			if word == stop {
				fmt.Fprintln(out, word, key)
				<-time.After(time.Hour) // to be killed long before; select{} would end the process as deadlocked
			}
		})
	}
	errs := make(chan error)
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				how := []string{"commit", "commit", "discard", "undo"}[i%4]
				if err := transact(ctx, s, fmt.Sprintf("%s %d-%d-%d", how, os.Getpid(), w, i), say); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	go func() {
		for i := 0; ; i++ {
			g, err := s.Reserve(ctx, claim(fmt.Sprintf("two-step %d-%d", os.Getpid(), i)))
			if err == nil {
				err = s.Complete(ctx, g.Lease, store.Outcome{Lazy: i%2 == 0})
			}
			if err != nil {
				errs <- err
				return
			}
		}
	}()
	return <-errs
}

func transact(ctx context.Context, s *Store, key string, say func(word, key string)) error {
	tx, g, err := s.Begin(ctx, claim(key))
	if err != nil {
		return err
	}
	if err := pay(tx.Tx(), key); err != nil {
		return err
	}
	say("wrote", key)
	word := "committed"
	o := store.Outcome{Result: fmt.Append(nil, g.Lease.Fence)}
	switch how, _, _ := strings.Cut(key, " "); how {
	case "discard":
		word, err = "discarded", tx.Discard(ctx, o)
	case "undo":
		word, err = "undone", tx.Rollback(ctx)
	default:
		err = tx.Commit(ctx, o)
	}
	if err == nil {
		say(word, key)
	}
	return err
}

// Wherever the process is killed, record and effect are both there or both are not.
func TestKilledProcessLeavesNoHalfOfATransaction(t *testing.T) {
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	path := tempFile(t)
	said := make(map[string]string) // the last word on each key
	for range rounds {
		lines := 1 + rand.IntN(100)
		t.Logf("killing after %d lines", lines)
		for _, line := range runAndKill(t, path, lines, childTx+"="+everywhere) {
			word, key, _ := strings.Cut(line, " ")
			said[key] = word
		}
		s := mustOpen(t, path)
		for key, word := range said {
			checkTransaction(t, s, key, word)
		}
		checkIndexes(t, s)
		require.NoError(t, s.Close())
	}
}

func checkTransaction(t *testing.T, s *Store, key, word string) {
	t.Helper()
	r, err := s.Find(t.Context(), claim(key).ID)
	settled, effect := err == nil, paid(t, s, key)
	if settled {
		require.Equal(t, store.StateComplete, r.State, "%s: nobody ever sees it pending", key)
		require.Equal(t, fmt.Sprint(r.Fence), string(r.Result))
		require.LessOrEqual(t, r.Fence, s.fence)
	} else {
		require.ErrorIs(t, err, store.ErrNotFound, key)
	}
	switch {
	case word == "committed":
		require.True(t, settled && effect, "%s: settled %t, paid %t", key, settled, effect)
	case word == "discarded":
		require.True(t, settled && !effect, "%s: settled %t, paid %t", key, settled, effect)
	case word == "undone", strings.HasPrefix(key, "undo"):
		require.True(t, !settled && !effect, "%s: settled %t, paid %t", key, settled, effect)
	case strings.HasPrefix(key, "discard"):
		require.False(t, effect, key)
	default: // it wrote, and may have committed without the word getting out
		require.Equal(t, settled, effect, key)
	}
}

func TestKilledAtAKnownPoint(t *testing.T) {
	for word, want := range map[string]bool{"wrote": false, "committed": true} {
		t.Run(word, func(t *testing.T) {
			path := tempFile(t)
			require.Equal(t, []string{word + " k"}, runAndKill(t, path, 1, childTx+"="+word))
			s := mustOpen(t, path)
			_, err := s.Find(t.Context(), claim("k").ID)
			require.Equal(t, want, err == nil)
			require.Equal(t, want, paid(t, s, "k"))
			if !want {
				require.ErrorIs(t, err, store.ErrNotFound)
				mustBegin(t, s, claim("k"), store.Acquired)
			}
		})
	}
}
