package redo_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// The claim of a caller that has given up can reach the store after that of the next call, and takes the operation over.
// That next call is then the only one that can learn the outcome.
func TestASuccessSettlesAnOperationThatALaterClaimHasTakenOver(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		stream bool
		want   store.State
		effect redo.Effect
	}{
		{"a success", http.StatusCreated, false, store.StateComplete, redo.Applied},
		{"a success that is streamed", http.StatusCreated, true, store.StateComplete, redo.Applied},
		{"the twin: a refusal holds for one call only", http.StatusPaymentRequired, false, store.StatePending,
			redo.EffectUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := openStore(t)
			late, giveUp := context.WithCancel(redo.WithOperation(t.Context(), "op"))
			ghost := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
				giveUp()
				<-r.Context().Done()
				return nil, r.Context().Err()
			}), redo.WithStore(st))
			client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
				e := fail(t, ghost, post(t, late, "http://api.test/", payment))
				require.Equal(t, taxonomy.CallerCanceled, e.Code)
				resp := answer(r, c.status, `{"id":1}`)
				if c.stream {
					resp.Header.Set("Content-Type", "text/event-stream")
				}
				return resp, nil
			}), redo.WithStore(st))
			resp, err := client.Do(post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
			if c.effect == redo.Applied {
				require.NoError(t, err)
				require.Equal(t, `{"id":1}`, drain(t, resp))
			} else {
				require.Equal(t, c.effect, failure(t, err).Effect)
			}
			op, err := client.Find(t.Context(), "op")
			require.NoError(t, err)
			require.Equal(t, c.want, op.State)
			require.Equal(t, c.effect, op.Effect)
		})
	}
}

// The operation of another key is another one.
func TestASuccessSettlesNoLaterOperationOfItsName(t *testing.T) {
	st := openStore(t)
	unreachable := connect(t, tripper(func(*http.Request) (*http.Response, error) {
		return nil, io.ErrUnexpectedEOF
	}), redo.WithStore(st), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
	client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
		require.NoError(t, unreachable.Forget(t.Context(), "op"))
		fail(t, unreachable, post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
		return answer(r, http.StatusCreated, ""), nil
	}), redo.WithStore(st))
	resp, _ := succeed(t, client, post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
	op, err := client.Find(t.Context(), "op")
	require.NoError(t, err)
	require.Equal(t, store.StatePending, op.State)
	require.NotEqual(t, redo.KeyOf(resp), op.Key)
}
