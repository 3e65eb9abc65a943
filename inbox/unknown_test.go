package inbox_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

func TestHandlerThatEndsItsTransactionIsNotRunAgain(t *testing.T) {
	for _, c := range []struct {
		name    string
		next    inbox.Handler
		dies    bool
		failure string
		opts    []inbox.Option
	}{
		{name: "and succeeds", next: returns(nil)},
		{name: "and fails", next: returns(errHandler), failure: "the ledger is closed"},
		{name: "and rejects the event", next: returns(inbox.Reject(errHandler)), failure: "the ledger is closed"},
		{
			name: "in its last attempt", next: returns(errHandler), failure: "the ledger is closed",
			opts: []inbox.Option{inbox.MaxAttempts(1)},
		},
		{
			name: "and panics", next: func(context.Context, inbox.Event) error { panic("boom") },
			dies: true, failure: "the handler panicked",
		},
		{name: "and ends its goroutine", next: func(context.Context, inbox.Event) error {
			runtime.Goexit()
			return nil
		}, dies: true, failure: "the handler panicked"},
		{name: "and runs out of time", next: func(ctx context.Context, _ inbox.Event) error {
			<-ctx.Done()
			return ctx.Err()
		}, failure: "deadline exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rigged(t, func(t *testing.T, r *rig) {
				var got inbox.Receipt
				err := errors.New("it did not return")
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					defer func() { _ = recover() }()
					got, err = r.live.Receive(t.Context(), event, r.ends(c.next))
				}()
				<-gone
				if c.dies {
					require.EqualError(t, err, "it did not return")
				} else {
					require.NoError(t, err)
					require.Equal(t, inbox.DeadLettered, got.Status)
					require.True(t, got.Unknown)
					require.Equal(t, 1, got.Attempts)
				}
				letter := r.requireUnknown(t)
				require.Equal(t, 1, letter.Attempts)
				require.Contains(t, letter.Failure, "the handler's effect is unknown")
				require.Contains(t, letter.Failure, store.ErrTxEnded.Error())
				require.Contains(t, letter.Failure, c.failure)
				for _, want := range []string{"level=ERROR", store.ErrTxEnded.Error(), "event_id=ev_001"} {
					require.Contains(t, r.log.String(), want)
				}

				plain := newInbox(t, r.engine)
				got, err = plain.Receive(t.Context(), event, nil)
				require.NoError(t, err)
				require.Equal(t, inbox.Replayed, got.Status)
				require.True(t, got.Unknown)
				_, err = plain.Redrive(t.Context(), event.Source, event.ID, nil)
				require.Equal(t, 1, refused(t, err, taxonomy.OutcomeUnknown).Attempts)
			}, c.opts...)
		})
	}
}

// Each write after the handler's commit may be the last one of the process.
func TestNoCrashHidesAnUnknownOutcome(t *testing.T) {
	for writes := 0; ; writes++ {
		enough := false
		rigged(t, func(t *testing.T, r *rig) {
			r.left = writes
			got, err := r.doomed.Receive(t.Context(), event, r.ends(returns(errHandler)))
			if enough = err == nil; enough {
				require.Equal(t, inbox.DeadLettered, got.Status)
				require.Positive(t, r.writes)
			} else {
				refused(t, err, taxonomy.Unavailable)
				require.Empty(t, letters(t, r.live, ""))
			}
			require.Equal(t, 1, r.requireUnknown(t).Attempts)
		})
		if enough {
			return
		}
	}
}

// The ordinary letter that is redriven must not remain an ordinary one.
func TestNoCrashInARedriveThatEndsUnknownLeavesAnOrdinaryLetter(t *testing.T) {
	for writes := 0; ; writes++ {
		enough := false
		rigged(t, func(t *testing.T, r *rig) {
			_, err := r.live.Receive(t.Context(), event, credit(inbox.Reject(errHandler)))
			require.NoError(t, err)
			r.left = writes
			_, err = r.doomed.Redrive(t.Context(), event.Source, event.ID, r.ends(returns(errHandler)))
			if enough = err == nil; !enough {
				refused(t, err, taxonomy.Unavailable)
				got, err := r.live.Redrive(t.Context(), event.Source, event.ID, credit(nil))
				require.NoError(t, err)
				require.Equal(t, inbox.Replayed, got.Status)
				require.True(t, got.Unknown)
			}
			require.Equal(t, 2, r.requireUnknown(t).Attempts)
		})
		if enough {
			return
		}
	}
}

// The letter outlives its event's record. After that only the letter shows that the event may have had its effect.
func TestAnUnknownLetterOutlivesItsEvent(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		r.makeUnknown(t)
		before := letters(t, r.live, "")
		time.Sleep(30 * 24 * time.Hour)
		_, err := r.live.Redrive(t.Context(), event.Source, event.ID, credit(nil))
		refused(t, err, taxonomy.OutcomeUnknown)
		require.Equal(t, credited, r.rows)

		got, err := r.live.Receive(t.Context(), event, credit(inbox.Reject(errors.New("another"))))
		require.NoError(t, err)
		require.Equal(t, inbox.DeadLettered, got.Status, "a new event")
		require.Equal(t, before, letters(t, r.live, ""), "the letter of the first one stays")
	})
}

func TestAnOperatorRedrivesAnUnknownLetter(t *testing.T) {
	redrive := func(t *testing.T, r *rig, h inbox.TxHandler[rows]) inbox.Receipt {
		t.Helper()
		got, err := r.live.RedriveUnknown(t.Context(), event.Source, event.ID, h)
		require.NoError(t, err)
		return got
	}
	t.Run("it is handled once", func(t *testing.T) {
		rigged(t, func(t *testing.T, r *rig) {
			r.makeUnknown(t)
			got := redrive(t, r, credit(nil))
			require.Equal(t, inbox.Processed, got.Status)
			require.Equal(t, 2, got.Attempts)
			require.False(t, got.Unknown)
			require.Empty(t, letters(t, r.live, ""))
			got, err := r.live.Receive(t.Context(), event, credit(nil))
			require.NoError(t, err)
			require.Equal(t, inbox.Replayed, got.Status)
			require.Equal(t, map[string]int{"credit ev_001": 2}, r.rows)
			_, err = r.live.RedriveUnknown(t.Context(), event.Source, event.ID, credit(nil))
			require.ErrorIs(t, err, inbox.ErrNoLetter)
		})
	})
	t.Run("a failure makes an ordinary letter of it", func(t *testing.T) {
		rigged(t, func(t *testing.T, r *rig) {
			r.makeUnknown(t)
			require.Equal(t, inbox.DeadLettered, redrive(t, r, credit(errHandler)).Status)
			list := letters(t, r.live, "")
			require.Len(t, list, 1)
			require.False(t, list[0].Unknown)
			require.Equal(t, "the ledger is closed", list[0].Failure)
			got, err := r.live.Redrive(t.Context(), event.Source, event.ID, credit(nil))
			require.NoError(t, err)
			require.Equal(t, inbox.Processed, got.Status)
		})
	})
	t.Run("an event that was handled later is not handled again", func(t *testing.T) {
		rigged(t, func(t *testing.T, r *rig) {
			r.makeUnknown(t)
			time.Sleep(inbox.DefaultRetention)
			_, err := r.live.Receive(t.Context(), event, credit(nil))
			require.NoError(t, err)
			require.True(t, letters(t, r.live, "")[0].Unknown, "no operator has decided yet")
			require.Equal(t, inbox.Replayed, redrive(t, r, credit(nil)).Status)
			require.Empty(t, letters(t, r.live, ""))
			require.Equal(t, map[string]int{"credit ev_001": 2}, r.rows)
		})
	})
	t.Run("an ordinary letter is redriven too", func(t *testing.T) {
		rigged(t, func(t *testing.T, r *rig) {
			_, err := r.live.Receive(t.Context(), event, credit(inbox.Reject(errHandler)))
			require.NoError(t, err)
			require.Equal(t, inbox.Processed, redrive(t, r, credit(nil)).Status)
			require.Equal(t, credited, r.rows)
		})
	})
	t.Run("by a plain inbox", func(t *testing.T) {
		rigged(t, func(t *testing.T, r *rig) {
			r.makeUnknown(t)
			var s scripted
			got, err := newInbox(t, r.engine).RedriveUnknown(t.Context(), event.Source, event.ID, s.handle)
			require.NoError(t, err)
			require.Equal(t, inbox.Processed, got.Status)
			require.Len(t, s.events, 1)
			require.Equal(t, event.Payload, s.events[0].Payload)
		})
	})
}

func TestADroppedUnknownLetterStaysAway(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		r.makeUnknown(t)
		time.Sleep(inbox.DefaultRetention - time.Second)
		require.NoError(t, r.live.Drop(t.Context(), event.Source, event.ID))
		for range 2 {
			got, err := r.live.Receive(t.Context(), event, credit(nil))
			require.NoError(t, err)
			require.Equal(t, inbox.Replayed, got.Status)
			require.True(t, got.Unknown)
			require.True(t, got.Dead())
			require.Empty(t, letters(t, r.live, ""))
		}
		require.ErrorIs(t, r.live.Drop(t.Context(), event.Source, event.ID), inbox.ErrNoLetter)
		for rec, err := range r.Pending(t.Context(), "") {
			require.NoError(t, err)
			require.NotContains(t, string(rec.Meta), string(event.Payload), "no payload is kept")
		}

		time.Sleep(time.Second) // the mark expires with the event's record
		r.left = 0
		_, err := r.doomed.Receive(t.Context(), event, r.ends(returns(errHandler)))
		refused(t, err, taxonomy.Unavailable)
		_, err = r.live.Receive(t.Context(), event, credit(nil))
		require.NoError(t, err)
		require.Len(t, letters(t, r.live, ""), 1, "the event after its retention has a letter of its own")
	})
}

// Each write of an operator's command may be the last one of the process. The operator then gives the command again.
func TestACommandOnAnUnknownLetterCanBeGivenAgain(t *testing.T) {
	for name, command := range map[string]func(ctx context.Context, in *inbox.Transactional[rows]) error{
		"Drop": func(ctx context.Context, in *inbox.Transactional[rows]) error {
			return in.Drop(ctx, event.Source, event.ID)
		},
		"RedriveUnknown": func(ctx context.Context, in *inbox.Transactional[rows]) error {
			_, err := in.RedriveUnknown(ctx, event.Source, event.ID, credit(nil))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for writes := 0; ; writes++ {
				enough := false
				rigged(t, func(t *testing.T, r *rig) {
					r.makeUnknown(t)
					r.armed, r.left, r.writes = true, writes, 0
					err := command(t.Context(), r.doomed)
					if enough = err == nil; !enough {
						refused(t, err, taxonomy.Unavailable)
						require.True(t, letters(t, r.live, "")[0].Unknown)
						_, err = r.live.Redrive(t.Context(), event.Source, event.ID, credit(nil))
						refused(t, err, taxonomy.OutcomeUnknown)
						time.Sleep(inbox.DefaultLeaseTTL)
						require.NoError(t, command(t.Context(), r.live))
					}
					require.Equal(t, map[string]int{"Drop": 1, "RedriveUnknown": 2}[name], r.rows["credit ev_001"])
					got, err := r.live.Receive(t.Context(), event, credit(nil))
					require.NoError(t, err)
					require.Equal(t, inbox.Replayed, got.Status)
					require.Equal(t, name == "Drop", got.Unknown)
					require.Empty(t, letters(t, r.live, ""))
				})
				if enough {
					require.Positive(t, writes)
					return
				}
			}
		})
	}
}

// The letter of an earlier event with the same id is not this event's.
func TestALetterOfAnotherPayloadIsKept(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		r.makeUnknown(t)
		time.Sleep(inbox.DefaultRetention)
		other := event
		other.Payload = []byte("other")
		for range 2 {
			_, err := r.live.Receive(t.Context(), other, r.ends(returns(errHandler)))
			refused(t, err, taxonomy.PayloadMismatch)
		}
		require.NoError(t, r.live.Drop(t.Context(), event.Source, event.ID))
		got, err := r.live.Receive(t.Context(), other, credit(nil))
		require.NoError(t, err)
		require.True(t, got.Unknown)
		require.Equal(t, other.Payload, letters(t, r.live, "")[0].Payload)
		require.Equal(t, map[string]int{"credit ev_001": 2}, r.rows)
	})
}

// The producer stops delivering, and does not learn the error.
func TestADeliveryOfAnUnknownOutcomeIsAcknowledged(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		h := r.live.Handler(identify, r.ends(returns(errHandler)))
		require.Equal(t, answered{http.StatusAccepted, "stored", "", "", ""}, deliver(t, h, event.ID, "p"))
		require.Equal(t, answered{http.StatusOK, "replayed", "true", "", ""}, deliver(t, h, event.ID, "p"))
		require.Equal(t, answered{http.StatusConflict, "", "", "", "CONFLICT.idempotency.payload_mismatch"}, deliver(t, h, event.ID, "other"))
	})
}
