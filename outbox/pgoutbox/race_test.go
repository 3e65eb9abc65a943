package pgoutbox_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
)

// The ways in which claims, settlements and sweeps can overlap, at each default of isolation.

func TestClaimDoesNotWaitForAnotherClaim(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			d := newDesk(t)
			d.isolate(level)
			d.enqueue(batch("e", 3)...)
			other := d.begin(pgx.ReadCommitted)
			other.exec(d.q.Statements().Log, logArgs(2)...)
			d.claim()
			other.commit()
			d.claim("e-0002")
		})
	}
}

// gated returns a claim of the log that waits for a lock between its snapshot and its own lock.
func (d desk) gated(text string) string {
	d.Helper()
	const where = "WHERE c.n = (SELECT n FROM cur"
	text = strings.Replace(text, where,
		"WHERE (SELECT count(*) FROM pg_advisory_xact_lock(7354021)) = 1 AND"+strings.TrimPrefix(where, "WHERE"), 1)
	require.Contains(d, text, "7354021")
	return text
}

// However many claims are made between a claim's snapshot and its lock, it takes nothing that they have taken.
func TestStaleClaimTakesNothing(t *testing.T) {
	for i := range 6 {
		claims, few := i/2, i%2 == 1
		d := newDesk(t)
		text, args := d.q.Statements().Log, logArgs(2)
		if few {
			text, args = d.q.Statements().Few, fewArgs(2)
		}
		d.enqueue(batch("e", 10)...)
		gate, stale := d.begin(pgx.ReadCommitted), d.begin(pgx.ReadCommitted)
		gate.exec("SELECT pg_advisory_xact_lock(7354021)")
		claimed := make(chan error, 1)
		go func() { _, err := stale.Exec(context.Background(), d.gated(text), args...); claimed <- err }()
		d.waits(gate)
		for i := range claims {
			d.claimed(outbox.Claim{Max: 1}, ids(batch("e", 10))[i])
		}
		gate.commit()
		require.NoError(t, <-claimed)
		stale.commit()
		left := d.all(outbox.Claim{Max: 100})
		if claims == 0 {
			require.Equal(t, ids(batch("e", 10))[2:], left, "it took two")
		} else {
			require.Equal(t, ids(batch("e", 10))[claims:], left, "it took nothing")
		}
	}
}

// The claim finds the line busy, and marks it before the settlement looks at it.
func TestSettlementSeesThatItsLineIsQueued(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			d := newDesk(t)
			d.isolate(level)
			d.enqueue(keyed("a1", "a"))
			head := d.claim("a1")[0]
			d.enqueue(keyed("a2", "a"))
			claim := d.begin(pgx.ReadCommitted)
			claim.exec(d.q.Statements().Log, logArgs(10)...)
			settled := d.settleBeside(head)
			d.waits(claim)
			claim.commit()
			require.NoError(t, <-settled)
			require.Equal(t, 1, d.count("_late", "state = 1"))
			d.claim("a2")
		})
	}
}

// The settlement has deleted the line when the claim comes to it.
func TestClaimSeesThatALineIsFree(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			d := newDesk(t)
			d.isolate(level)
			d.enqueue(keyed("a1", "a"))
			head := d.claim("a1")[0]
			d.enqueue(keyed("a2", "a"), outbox.Event{ID: "free", Destination: "other"})
			settling := d.begin(pgx.ReadCommitted)
			settling.exec(d.q.Statements().Settle, settleArgs(head)...)
			claimed := make(chan []string, 1)
			go func() {
				ds, err := d.q.Claim(context.Background(), outbox.Claim{Max: 10, Lease: time.Hour})
				got := []string{}
				for _, d := range ds {
					got = append(got, d.Event.ID)
				}
				if err != nil {
					got = append(got, err.Error())
				}
				claimed <- got
			}()
			d.waits(settling)
			settling.commit()
			got := <-claimed
			require.Contains(t, got, "free")
			if len(got) == 1 {
				d.claim("a2")
			}
			d.settleNothingLeft(2)
		})
	}
}

// settleNothingLeft checks that so many events are under way, and no event waits for ever.
func (d desk) settleNothingLeft(n int) {
	d.Helper()
	st, err := d.q.Stats(d.Context())
	require.NoError(d, err)
	require.Equal(d, n, st.Waiting)
	var under int
	require.NoError(d, d.pool.QueryRow(d.Context(),
		"SELECT coalesce(sum(cardinality(open)), 0) FROM "+d.named("_claim")).Scan(&under))
	require.Equal(d, n, under)
}

// The lease has expired, and the sweep makes its events late while the settlement waits.
func TestOwnerSettlesAnEventThatASweepHasMadeLate(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			d := newDesk(t)
			d.isolate(level)
			d.enqueue(keyed("a1", "a"), keyed("a2", "a"))
			head := d.claimed(outbox.Claim{Max: 1}, "a1")[0]
			d.exec(t, "UPDATE "+d.named("_claim")+" SET lease_end = clock_timestamp()")
			sweep := d.begin(pgx.ReadCommitted)
			sweep.exec(d.q.Statements().Sweep, true)
			settled := d.settleBeside(head)
			d.waits(sweep)
			sweep.commit()
			require.NoError(t, <-settled)
			d.claim("a2")
			d.settleNothingLeft(1)
		})
	}
}

// The owner of an expired lease settles while a claim of the line takes the event again: one of them gets it.
func TestClaimOfALineLeavesAnEventThatItsOwnerSettles(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			d := newDesk(t)
			d.isolate(level)
			d.enqueue(keyed("a1", "a"), keyed("a2", "a"))
			head := d.claimed(outbox.Claim{Max: 1}, "a1")[0]
			d.exec(t, "UPDATE "+d.named("_claim")+" SET lease_end = clock_timestamp()")
			sweep := d.begin(pgx.ReadCommitted)
			sweep.exec(d.q.Statements().Sweep, true)
			sweep.commit()
			settling := d.begin(pgx.ReadCommitted)
			settling.exec(d.q.Statements().Settle, settleArgs(head)...)
			claimed := make(chan int, 1)
			go func() {
				ds, _ := d.q.Claim(context.Background(), outbox.Claim{Max: 1, Lease: time.Hour})
				claimed <- len(ds)
			}()
			d.waits(settling)
			settling.commit()
			<-claimed
			require.Zero(t, d.count("_late",
				"state = 2 AND NOT EXISTS (SELECT FROM "+d.named("_claim")+" WHERE seq = ANY (open))"))
			st, err := d.q.Stats(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, st.Waiting, "a2")
		})
	}
}

// settleBeside begins to settle.
func (d desk) settleBeside(of outbox.Delivery) <-chan error {
	settled := make(chan error, 1)
	go func() {
		lost, err := d.q.Settle(context.Background(), settlements(outbox.Sent, of)...)
		if err == nil && len(lost) > 0 {
			err = context.Canceled
		}
		settled <- err
	}()
	return settled
}
