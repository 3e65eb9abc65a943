package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/taxonomy"
)

// A book is a transactional inbox over a real file, with entries of its handlers' own in it.
type book struct {
	*inbox.Transactional[*bbolt.Tx]
	t   *testing.T
	st  *boltstore.Store
	ran int
}

func newBook(t *testing.T, opts ...inbox.Option) *book {
	t.Helper()
	st, err := boltstore.Open(filepath.Join(t.TempDir(), "book.redo"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	in, err := inbox.NewTransactional[*bbolt.Tx](st, append([]inbox.Option{atOnce}, opts...)...)
	require.NoError(t, err)
	return &book{Transactional: in, t: t, st: st}
}

// atOnce lets no event rest, for tests on a real clock.
var atOnce = inbox.Backoff(func(int) time.Duration { return 0 })

var entries = []byte("entries")

// enter makes an entry, ends the transaction by itself, as no handler must, and then runs next.
func (b *book) enter(end func(*bbolt.Tx) error, next inbox.Handler) inbox.TxHandler[*bbolt.Tx] {
	return func(ctx context.Context, tx *bbolt.Tx, ev inbox.Event) error {
		b.ran++
		own, err := tx.CreateBucketIfNotExists(entries)
		if err != nil {
			return err
		}
		if err := own.Put(strconv.AppendInt(nil, int64(b.ran), 10), []byte(ev.ID)); err != nil {
			return err
		}
		if end != nil {
			if err := end(tx); err != nil {
				return err
			}
		}
		return next(ctx, ev)
	}
}

// entered counts the entries that are committed.
func (b *book) entered() (n int) {
	b.t.Helper()
	require.NoError(b.t, b.st.View(b.t.Context(), func(tx *bbolt.Tx) error {
		if own := tx.Bucket(entries); own != nil {
			n = own.Stats().KeyN
		}
		return nil
	}))
	return n
}

func fails(err error) inbox.Handler { return func(context.Context, inbox.Event) error { return err } }

// No event whose handler has committed is handled again, nor called undone, nor acknowledged as handled when it was not.
func TestHandlerThatCommitsItself(t *testing.T) {
	for _, c := range []struct {
		rule    string
		next    inbox.Handler
		handled bool
		dies    bool
		failure string
		opts    []inbox.Option
	}{
		{rule: "and succeeds has handled the event", next: fails(nil), handled: true},
		{rule: "and fails has not failed", next: fails(errHandler), failure: "the ledger is closed"},
		{rule: "and rejects the event has not rejected it", next: fails(inbox.Reject(errHandler)), failure: "the ledger is closed"},
		{rule: "in its last attempt does not make an ordinary letter", next: fails(errHandler), failure: "the ledger is closed", opts: []inbox.Option{inbox.MaxAttempts(1)}},
		{rule: "and panics is not run again", next: func(context.Context, inbox.Event) error { panic("boom") }, dies: true, failure: "the handler panicked"},
		{rule: "and ends its goroutine is not run again", next: func(context.Context, inbox.Event) error {
			runtime.Goexit()
			return nil
		}, dies: true, failure: "the handler panicked"},
		{rule: "and runs out of time is not run again", next: func(ctx context.Context, _ inbox.Event) error {
			<-ctx.Done()
			return ctx.Err()
		}, failure: "deadline exceeded", opts: []inbox.Option{inbox.HandlerTimeout(time.Millisecond)}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var log bytes.Buffer
			b := newBook(t, append(c.opts, inbox.Logger(slog.New(slog.NewTextHandler(&log, nil))))...)
			h := b.enter((*bbolt.Tx).Commit, c.next)
			var r inbox.Receipt
			var err error
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				defer func() { _ = recover() }()
				err = errors.New("it did not return")
				r, err = b.Receive(t.Context(), event, h)
			}()
			<-gone
			if c.dies {
				require.EqualError(t, err, "it did not return")
			} else {
				require.NoError(t, err)
				require.Equal(t, 1, r.Attempts)
				require.Equal(t, !c.handled, r.Unknown)
				require.Equal(t, !c.handled, r.Dead())
				require.Equal(t, map[bool]inbox.Status{true: inbox.Processed, false: inbox.DeadLettered}[c.handled], r.Status)
			}
			require.Contains(t, log.String(), "level=ERROR")
			require.Contains(t, log.String(), store.ErrTxEnded.Error())
			require.Contains(t, log.String(), "event_id=ev_001")

			plain, err := inbox.New(b.st, c.opts...)
			require.NoError(t, err)
			for range 2 {
				for _, receive := range []func() (inbox.Receipt, error){
					func() (inbox.Receipt, error) { return b.Receive(t.Context(), event, h) },
					func() (inbox.Receipt, error) { return plain.Receive(t.Context(), event, nil) },
				} {
					r, err = receive()
					require.NoError(t, err)
					require.Equal(t, inbox.Replayed, r.Status)
					require.Equal(t, 1, r.Attempts)
					require.Equal(t, !c.handled, r.Unknown)
					require.Contains(t, r.Failure, c.failure)
				}
				if !c.handled {
					_, err = b.Redrive(t.Context(), event.Source, event.ID, h)
					refused(t, err, taxonomy.OutcomeUnknown)
					_, err = plain.Redrive(t.Context(), event.Source, event.ID, nil)
					require.Equal(t, 1, refused(t, err, taxonomy.OutcomeUnknown).Attempts)
				}
			}
			if list := letters(t, b, "payments"); c.handled {
				require.Empty(t, list)
			} else {
				require.Len(t, list, 1)
				require.True(t, list[0].Unknown)
				require.Equal(t, event.Payload, list[0].Payload)
				require.Equal(t, r.Failure, list[0].Failure)
				require.Equal(t, r.ProcessedAt, list[0].FailedAt)
				require.Equal(t, r.ReceivedAt, list[0].ReceivedAt)
				require.Contains(t, r.Failure, "what the handler did is not known, and it is not run again: ")
				require.Contains(t, r.Failure, store.ErrTxEnded.Error())
			}
			require.Equal(t, 1, b.ran)
			require.Equal(t, 1, b.entered())
		})
	}
}

func TestHandlerThatRollsBackItself(t *testing.T) {
	var log bytes.Buffer
	b := newBook(t, inbox.MaxAttempts(3), inbox.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	h := b.enter((*bbolt.Tx).Rollback, fails(nil))
	for n := 1; n < 3; n++ {
		_, err := b.Receive(t.Context(), event, h)
		require.Equal(t, n, refused(t, err, inbox.HandlerFailed).Attempts, "a success that was undone is a failed attempt")
		require.ErrorIs(t, err, store.ErrTxEnded)
		require.Contains(t, log.String(), "attempt="+strconv.Itoa(n))
	}
	r, err := b.Receive(t.Context(), event, h)
	require.NoError(t, err)
	require.Equal(t, inbox.DeadLettered, r.Status)
	require.Equal(t, 3, r.Attempts)
	require.False(t, r.Unknown, "nothing was done, and that is known")
	require.Contains(t, r.Failure, store.ErrTxEnded.Error())
	require.Zero(t, b.entered())

	r, err = b.Redrive(t.Context(), event.Source, event.ID, b.enter(nil, fails(nil)))
	require.NoError(t, err)
	require.Equal(t, inbox.Processed, r.Status)
	require.Equal(t, 4, r.Attempts)
	require.Equal(t, 1, b.entered())

	failed := newBook(t)
	_, err = failed.Receive(t.Context(), event, failed.enter((*bbolt.Tx).Rollback, fails(errHandler)))
	refused(t, err, inbox.HandlerFailed)
	require.ErrorIs(t, err, errHandler)
	require.Zero(t, failed.entered())
}

// The operator has looked: what was done is dropped, and what was not is reopened.
func TestALetterOfAnUnknownOutcomeWaitsForSomebodyToLook(t *testing.T) {
	unknown := func(t *testing.T) *book {
		b := newBook(t)
		r, err := b.Receive(t.Context(), event, b.enter((*bbolt.Tx).Commit, fails(errHandler)))
		require.NoError(t, err)
		require.True(t, r.Unknown)
		return b
	}
	t.Run("reopened it is a letter like any other", func(t *testing.T) {
		b := unknown(t)
		for range 2 {
			require.NoError(t, b.Reopen(t.Context(), event.Source, event.ID))
			list := letters(t, b, "")
			require.Len(t, list, 1)
			require.False(t, list[0].Unknown)
			require.Contains(t, list[0].Failure, "the ledger is closed")
		}
		r, err := b.Redrive(t.Context(), event.Source, event.ID, b.enter(nil, fails(nil)))
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status)
		require.Equal(t, 2, r.Attempts)
		require.False(t, r.Unknown)
		require.Empty(t, letters(t, b, ""))
		require.Equal(t, 2, b.ran)
		require.ErrorIs(t, b.Reopen(t.Context(), event.Source, event.ID), inbox.ErrNoLetter)
	})
	t.Run("reopened it is handled by the next delivery, and only once", func(t *testing.T) {
		b := unknown(t)
		require.NoError(t, b.Reopen(t.Context(), event.Source, event.ID))
		h := b.enter(nil, fails(nil))
		for _, want := range []inbox.Status{inbox.Processed, inbox.Replayed} {
			r, err := b.Receive(t.Context(), event, h)
			require.NoError(t, err)
			require.Equal(t, want, r.Status)
		}
		r, err := b.Redrive(t.Context(), event.Source, event.ID, h)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
		require.Empty(t, letters(t, b, ""))
		require.Equal(t, 2, b.ran)
	})
	t.Run("dropped it stays away", func(t *testing.T) {
		b := unknown(t)
		want, err := b.Receive(t.Context(), event, nil)
		require.NoError(t, err)
		require.NoError(t, b.Drop(t.Context(), event.Source, event.ID))
		for range 2 {
			r, err := b.Receive(t.Context(), event, nil)
			require.NoError(t, err)
			require.Equal(t, want, r, "as before")
			require.True(t, r.Dead())
			require.Empty(t, letters(t, b, ""))
		}
		require.ErrorIs(t, b.Drop(t.Context(), event.Source, event.ID), inbox.ErrNoLetter)
		require.ErrorIs(t, b.Reopen(t.Context(), event.Source, event.ID), inbox.ErrNoLetter)
	})
	t.Run("an attempt of a redrive makes one of an ordinary letter", func(t *testing.T) {
		b := newBook(t)
		_, err := b.Receive(t.Context(), event, b.enter(nil, fails(inbox.Reject(errHandler))))
		require.NoError(t, err)
		r, err := b.Redrive(t.Context(), event.Source, event.ID, b.enter((*bbolt.Tx).Commit, fails(errHandler)))
		require.NoError(t, err)
		require.Equal(t, inbox.DeadLettered, r.Status)
		require.True(t, r.Unknown)
		require.Equal(t, 2, r.Attempts)
		_, err = b.Redrive(t.Context(), event.Source, event.ID, nil)
		refused(t, err, taxonomy.OutcomeUnknown)
		list := letters(t, b, "")
		require.Len(t, list, 1)
		require.True(t, list[0].Unknown)
		require.Equal(t, 1, b.entered())
	})
}

// The producer is told that the event is kept and not that it was handled; it neither delivers for ever nor learns the error.
func TestADeliveryOfAnUnknownOutcomeIsAcknowledgedAsKept(t *testing.T) {
	b := newBook(t)
	h := b.Handler(identify, b.enter((*bbolt.Tx).Commit, fails(errHandler)))
	require.Equal(t, answered{http.StatusAccepted, "stored", "", "", ""}, deliver(t, h, event.ID, "p"))
	require.Equal(t, answered{http.StatusOK, "replayed", "true", "", ""}, deliver(t, h, event.ID, "p"))
	require.Equal(t, answered{http.StatusConflict, "", "", "", "CONFLICT.idempotency.payload_mismatch"}, deliver(t, h, event.ID, "other"))

	handled := b.Handler(identify, b.enter((*bbolt.Tx).Commit, fails(nil)))
	require.Equal(t, answered{http.StatusOK, "stored", "", "", ""}, deliver(t, handled, "b", "p"))
	undone := b.Handler(identify, b.enter((*bbolt.Tx).Rollback, fails(nil)))
	require.Equal(t, answered{http.StatusServiceUnavailable, "", "", "1", "TRANSIENT.handler_failed"}, deliver(t, undone, "c", "p"))
	require.Equal(t, 2, b.entered())
}
