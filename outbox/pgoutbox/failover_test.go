package pgoutbox_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// A standby that was behind gives an event the place of a lost one, and its claim the number of a lost claim. A relay
// that has delivered the lost event must not settle the other one.
func TestLeaseOfTheLostHistorySettlesNoOtherEvent(t *testing.T) {
	primary := pgtest.NewServer(t)
	before := place{url: primary.URL, schema: "public"}
	q, _ := before.open(t)
	standby := pgtest.NewStandby(t, primary)
	standby.CatchUp(t, primary)
	standby.CutOff(t)
	claim := outbox.Claim{Max: 1, Lease: time.Hour}
	require.NoError(t, q.Append(t.Context(), outbox.Event{ID: "lost", Destination: "bank"}))
	lost, err := q.Claim(t.Context(), claim)
	require.NoError(t, err)
	require.Len(t, lost, 1)
	standby.Promote(t)

	after := place{url: standby.URL, schema: "public"}
	q, _ = after.open(t)
	require.NoError(t, q.Append(t.Context(), outbox.Event{ID: "new", Destination: "bank"}))
	claimed, err := q.Claim(t.Context(), claim)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	require.Equal(t, lost[0].Lease.Seq, claimed[0].Lease.Seq, "the test needs a place that is given again")
	sent := outbox.Settlement{Lease: lost[0].Lease, Outcome: outbox.Outcome{Result: outbox.Sent}}
	refused, err := q.Settle(t.Context(), sent)
	require.NoError(t, err)
	require.Equal(t, []outbox.Lease{lost[0].Lease}, refused)
	st, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, st.Waiting, "the new event was not sent")
}
