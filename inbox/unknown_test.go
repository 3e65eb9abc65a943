package inbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// Each write after the handler's own commit may be the last one that the process makes.
func TestNoCrashAfterAHandlersOwnCommitAppliesItTwiceOrHidesIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		orphan bool // the store's own write is not made
		first  int  // without the writes before it there is nothing that could tell
	}{{"the store has settled the event", false, 0}, {"the inbox has to", true, 2}} {
		t.Run(c.name, func(t *testing.T) {
			for writes := c.first; ; writes++ {
				enough := false
				rigged(t, func(t *testing.T, r *rig) {
					r.orphan, r.left = c.orphan, writes
					got, err := r.doomed.Receive(t.Context(), event, r.commits(errHandler))
					enough = err == nil
					if enough {
						require.Equal(t, inbox.DeadLettered, got.Status)
						require.Equal(t, r.takes, writes)
					} else {
						refused(t, err, taxonomy.Unavailable)
						require.Empty(t, letters(t, r.live, ""), "nothing is told before it is certain")
						got, err = r.live.Receive(t.Context(), event, credit(nil))
						require.NoError(t, err)
						require.Equal(t, inbox.DeadLettered, got.Status, "the next delivery says that it is kept")
						require.Contains(t, r.log.String(), "written late")
					}
					require.True(t, got.Unknown)
					require.Equal(t, 1, r.requireUnknown(t).Attempts)
				})
				if enough {
					return
				}
			}
		})
	}
}

// The same on a redrive, where an ordinary letter stands that must not pass for the event's.
func TestNoCrashInARedriveThatEndsUnknownLeavesAnOrdinaryLetter(t *testing.T) {
	for writes := 0; ; writes++ {
		enough := false
		rigged(t, func(t *testing.T, r *rig) {
			_, err := r.live.Receive(t.Context(), event, credit(inbox.Reject(errHandler)))
			require.NoError(t, err)
			r.left = writes
			_, err = r.doomed.Redrive(t.Context(), event.Source, event.ID, r.commits(errHandler))
			enough = err == nil
			if !enough {
				refused(t, err, taxonomy.Unavailable)
				got, err := r.live.Redrive(t.Context(), event.Source, event.ID, credit(nil))
				require.NoError(t, err)
				require.Equal(t, inbox.DeadLettered, got.Status)
				require.True(t, got.Unknown)
			}
			r.requireUnknown(t)
		})
		if enough {
			return
		}
	}
}

// A store that can't be reached for a moment must not bring the effect a second time.
func TestAnEventThatMayBeAppliedIsBarredAsSoonAsTheStoreIsBack(t *testing.T) {
	for _, err := range []error{errHandler, nil} {
		rigged(t, func(t *testing.T, r *rig) {
			r.orphan, r.down = true, 3
			got, err := r.doomed.Receive(t.Context(), event, r.commits(err))
			require.NoError(t, err)
			require.Equal(t, inbox.DeadLettered, got.Status)
			require.True(t, got.Unknown)
			r.requireUnknown(t)
		})
	}
}

// The record may become readable late: what it says counts.
func TestASuccessThatIsRecordedIsHandledAlthoughItCouldNotBeReadAtOnce(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		blind := &blindOnce{failing: r.failing}
		in, err := inbox.NewTransactional[rows](blind)
		require.NoError(t, err)
		got, err := in.Receive(t.Context(), event, r.commits(nil))
		require.NoError(t, err)
		require.True(t, blind.asked)
		require.Equal(t, inbox.Processed, got.Status)
		require.False(t, got.Unknown)
		require.Empty(t, letters(t, in, ""))
		got, err = in.Receive(t.Context(), event, credit(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, got.Status)
		require.False(t, got.Dead())
		require.Equal(t, credited, r.rows)
	})
}

// blindOnce can't read the event when it is first asked.
type blindOnce struct {
	*failing
	asked bool
}

func (b *blindOnce) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if id == eventRecord && !b.asked {
		b.asked = true
		return store.Record{}, store.ErrUnavailable
	}
	return b.failing.Find(ctx, id)
}

// Between the lost record and its repair another delivery has handled the event: it may be applied twice, which is told.
func TestAnEventThatMayBeAppliedTwiceIsListed(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		r.orphan = true
		racing := &racingEngine{engine: r.engine, now: func() {
			r.orphan = false
			got, err := r.live.Receive(t.Context(), event, credit(nil))
			require.NoError(t, err)
			require.Equal(t, inbox.Processed, got.Status)
		}}
		in, err := inbox.NewTransactional[rows](racing)
		require.NoError(t, err)
		got, err := in.Receive(t.Context(), event, func(ctx context.Context, tx rows, ev inbox.Event) error {
			racing.armed = true
			return r.commits(errHandler)(ctx, tx, ev)
		})
		require.NoError(t, err)
		require.True(t, got.Unknown)
		require.Equal(t, map[string]int{"credit ev_001": 2}, r.rows)
		require.True(t, letters(t, in, "")[0].Unknown)
		_, err = in.Redrive(t.Context(), event.Source, event.ID, credit(nil))
		refused(t, err, taxonomy.OutcomeUnknown)
	})
}

// A racingEngine lets somebody else come first, once.
type racingEngine struct {
	*engine
	armed bool
	now   func()
}

func (r *racingEngine) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if r.armed {
		r.armed = false
		r.now()
	}
	return r.engine.Reserve(ctx, c)
}

// The letter outlives the event's record, after which nothing else says that the event may be applied.
func TestALetterOfAnUnknownOutcomeIsNotRedrivenAfterTheRetentionEither(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		_, err := r.live.Receive(t.Context(), event, r.commits(errHandler))
		require.NoError(t, err)
		before := letters(t, r.live, "")
		time.Sleep(30 * 24 * time.Hour)
		_, err = r.live.Redrive(t.Context(), event.Source, event.ID, credit(nil))
		refused(t, err, taxonomy.OutcomeUnknown)
		require.Equal(t, credited, r.rows)

		got, err := r.live.Receive(t.Context(), event, credit(inbox.Reject(errors.New("another"))))
		require.NoError(t, err)
		require.Equal(t, inbox.DeadLettered, got.Status, "a new event")
		require.Equal(t, before, letters(t, r.live, ""), "and the letter says of the first one what it said")
		_, err = r.live.Redrive(t.Context(), event.Source, event.ID, credit(nil))
		refused(t, err, taxonomy.OutcomeUnknown)
	})
}

// Two attempts have ended so, the second after the event's record had expired: the letter tells of both.
func TestALetterTellsOfEveryUnknownOutcome(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		for _, text := range []string{"first", "second"} {
			got, err := r.live.Receive(t.Context(), event, r.commits(errors.New(text)))
			require.NoError(t, err)
			require.Equal(t, inbox.DeadLettered, got.Status)
			time.Sleep(inbox.DefaultRetention)
		}
		list := letters(t, r.live, "")
		require.Len(t, list, 1)
		require.True(t, list[0].Unknown)
		require.Contains(t, list[0].Failure, "first")
		require.Contains(t, list[0].Failure, "second")
	})
}

// An event that was handled later is not forgotten with the letter of before.
func TestAReopenedLetterOfAnEventThatWasHandledIsNotHandledAgain(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		_, err := r.live.Receive(t.Context(), event, r.commits(errHandler))
		require.NoError(t, err)
		time.Sleep(inbox.DefaultRetention)
		got, err := r.live.Receive(t.Context(), event, credit(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, got.Status)
		require.True(t, letters(t, r.live, "")[0].Unknown, "nobody has looked yet")

		require.NoError(t, r.live.Reopen(t.Context(), event.Source, event.ID))
		got, err = r.live.Redrive(t.Context(), event.Source, event.ID, credit(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, got.Status)
		require.Empty(t, letters(t, r.live, ""))
		require.Equal(t, map[string]int{"credit ev_001": 2}, r.rows)
	})
}

// What was dropped is not what came under the same id later.
func TestADroppedOutcomeDoesNotHideALaterOne(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		receive := func() {
			got, err := r.doomed.Receive(t.Context(), event, r.commits(errHandler))
			require.NoError(t, err)
			require.True(t, got.Unknown)
		}
		receive()
		time.Sleep(inbox.DefaultRetention - time.Second)
		require.NoError(t, r.live.Drop(t.Context(), event.Source, event.ID), "its mark will outlive the event's record")
		time.Sleep(time.Second)
		r.armed, r.left = false, 0
		_, err := r.doomed.Receive(t.Context(), event, r.commits(errHandler))
		refused(t, err, taxonomy.Unavailable)
		require.Equal(t, map[string]int{"credit ev_001": 2}, r.rows, "the event of after its retention")
		r.left = always
		got, err := r.live.Receive(t.Context(), event, credit(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.DeadLettered, got.Status)
		require.Len(t, letters(t, r.live, ""), 1)

		require.NoError(t, r.live.Drop(t.Context(), event.Source, event.ID))
		got, err = r.live.Receive(t.Context(), event, credit(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, got.Status)
		require.Empty(t, letters(t, r.live, ""))
	})
}

// Each write of an operator's command may be its last: given again it brings what was asked for.
func TestACommandOnAnUnknownOutcomeCanBeGivenAgain(t *testing.T) {
	for name, command := range map[string]func(ctx context.Context, in *inbox.Transactional[rows]) error{
		"Drop": func(ctx context.Context, in *inbox.Transactional[rows]) error {
			return in.Drop(ctx, event.Source, event.ID)
		},
		"Reopen": func(ctx context.Context, in *inbox.Transactional[rows]) error {
			return in.Reopen(ctx, event.Source, event.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for writes := 0; ; writes++ {
				enough := false
				rigged(t, func(t *testing.T, r *rig) {
					_, err := r.live.Receive(t.Context(), event, r.commits(errHandler))
					require.NoError(t, err)
					r.left, r.takes = writes, 0
					err = command(t.Context(), r.doomed)
					enough = err == nil
					if !enough {
						refused(t, err, taxonomy.Unavailable)
						require.True(t, letters(t, r.live, "")[0].Unknown)
						_, err = r.live.Redrive(t.Context(), event.Source, event.ID, credit(nil))
						refused(t, err, taxonomy.OutcomeUnknown)
						require.NoError(t, command(t.Context(), r.live))
					}
					require.Equal(t, credited, r.rows)
					if name == "Reopen" {
						got, err := r.live.Redrive(t.Context(), event.Source, event.ID, credit(nil))
						require.NoError(t, err)
						require.Equal(t, inbox.Processed, got.Status)
					}
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

// An event's record that can't be removed bars it still, and its letter goes on to say so.
func TestALetterIsNotReopenedBeforeItsEvent(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		_, err := r.live.Receive(t.Context(), event, r.commits(errHandler))
		require.NoError(t, err)
		r.down = 1
		refused(t, r.doomed.Reopen(t.Context(), event.Source, event.ID), taxonomy.Unavailable)
		require.Equal(t, 1, r.takes)
		r.requireUnknown(t)
	})
}

// Nothing of a payload is kept that somebody wanted deleted.
func TestADroppedLetterLeavesNoPayload(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		_, err := r.live.Receive(t.Context(), event, r.commits(errHandler))
		require.NoError(t, err)
		require.NoError(t, r.live.Drop(t.Context(), event.Source, event.ID))
		marks := 0
		for rec, err := range r.Pending(t.Context(), "") {
			require.NoError(t, err)
			require.NotContains(t, string(rec.Meta), string(event.Payload))
			marks++
		}
		require.Equal(t, 1, marks)
	})
}

// The letter of an earlier event with the id stands in the way: a delivery is not told that the letter is its own.
func TestALetterOfAnotherPayloadDoesNotTellOfThisOne(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		_, err := r.live.Receive(t.Context(), event, r.commits(errHandler))
		require.NoError(t, err)
		time.Sleep(inbox.DefaultRetention)
		other := event
		other.Payload = []byte("other")
		_, err = r.live.Receive(t.Context(), other, r.commits(errHandler))
		refused(t, err, taxonomy.PayloadMismatch)
		_, err = r.live.Receive(t.Context(), other, credit(nil))
		refused(t, err, taxonomy.PayloadMismatch)
		require.NoError(t, r.live.Drop(t.Context(), event.Source, event.ID), "the way is free then")
		got, err := r.live.Receive(t.Context(), other, credit(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.DeadLettered, got.Status)
		require.Equal(t, other.Payload, letters(t, r.live, "")[0].Payload)
		require.Equal(t, map[string]int{"credit ev_001": 2}, r.rows)
	})
}

// Somebody else has moved the letter on while the command was given.
func TestALetterThatChangesIsNotReopenedUnseen(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		_, err := r.live.Receive(t.Context(), event, r.commits(errHandler))
		require.NoError(t, err)
		stolen := &stealing{engine: r.engine}
		in, err := inbox.NewTransactional[rows](stolen)
		require.NoError(t, err)
		refused(t, in.Reopen(t.Context(), event.Source, event.ID), taxonomy.InFlight)
		require.True(t, letters(t, in, "")[0].Unknown)
	})
}

// A stealing engine takes every record over before it is extended.
type stealing struct{ *engine }

func (s *stealing) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	rec, err := s.Find(ctx, l.ID)
	if err != nil {
		return err
	}
	if _, err := s.engine.Reserve(ctx, store.Claim{ID: l.ID, Fingerprint: rec.Fingerprint, Retention: time.Hour}); err != nil {
		return err
	}
	return s.engine.Extend(ctx, l, d, meta)
}
