package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func TestJudge(t *testing.T) {
	now := time.Unix(1e9, 0)
	claim := store.Claim{Fingerprint: store.Raw("", "", "", []byte("payload"))}
	record := func(state store.State, change func(*store.Record)) store.Record {
		r := store.Record{State: state, Fingerprint: claim.Fingerprint, ExpiresAt: now.Add(time.Hour)}
		if change != nil {
			change(&r)
		}
		return r
	}
	leased := func(d time.Duration) func(*store.Record) {
		return func(r *store.Record) { r.LeaseUntil = now.Add(d) }
	}
	expired := func(r *store.Record) { r.ExpiresAt = now }
	other := func(r *store.Record) { r.Fingerprint = store.Fingerprint{} }
	for _, c := range []struct {
		name string
		rec  store.Record
		want store.Verdict
	}{
		{"no record", store.Record{}, store.Acquired},
		{"pending without a lease", record(store.StatePending, nil), store.TakenOver},
		{"pending under a live lease", record(store.StatePending, leased(1)), store.InFlight},
		{"pending at the lease's end", record(store.StatePending, leased(0)), store.TakenOver},
		{"pending after the lease's end", record(store.StatePending, leased(-1)), store.TakenOver},
		{"complete", record(store.StateComplete, nil), store.Complete},
		{"failed", record(store.StateFailed, nil), store.Failed},
		{"never expires", record(store.StateFailed, func(r *store.Record) { r.ExpiresAt = time.Time{} }), store.Failed},
		{"expires next", record(store.StateFailed, func(r *store.Record) { r.ExpiresAt = now.Add(1) }), store.Failed},
		{"pending and expired", record(store.StatePending, expired), store.Acquired},
		{"complete and expired", record(store.StateComplete, expired), store.Acquired},
		{"pending for another payload", record(store.StatePending, other), store.Mismatch},
		{"complete for another payload", record(store.StateComplete, other), store.Mismatch},
		{"failed for another payload", record(store.StateFailed, other), store.Mismatch},
		{
			"in flight for another payload",
			record(store.StatePending, func(r *store.Record) { other(r); leased(1)(r) }), store.Mismatch,
		},
		{
			"expired for another payload",
			record(store.StateComplete, func(r *store.Record) { other(r); expired(r) }), store.Acquired,
		},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, store.Judge(c.rec, claim, now)) })
	}
}

func TestHeld(t *testing.T) {
	now := time.Unix(1e9, 0)
	claim := store.Claim{
		ID: store.ID{Key: "k"}, Fingerprint: store.Raw("", "", "", []byte("payload")), Lease: time.Minute,
		Retention: time.Hour, Owner: "nonce", Meta: []byte("meta"),
	}
	acquired := store.Record{
		ID:          claim.ID,
		Fingerprint: claim.Fingerprint,
		State:       store.StatePending,
		Owner:       "nonce",
		Meta:        []byte("meta"),
		Fence:       7,
		CreatedAt:   now,
		LeaseUntil:  now.Add(time.Minute),
		ExpiresAt:   now.Add(time.Hour),
	}
	for _, c := range []struct {
		name   string
		change func(*store.Record, *store.Claim)
		want   store.Verdict // zero: not held
	}{
		{"fresh", func(*store.Record, *store.Claim) {}, store.Acquired},
		{"fresh, with instants that were rounded", func(r *store.Record, _ *store.Claim) {
			r.LeaseUntil = r.LeaseUntil.Add(time.Millisecond)
		}, store.Acquired},
		{
			"fresh, without a lease",
			func(r *store.Record, c *store.Claim) { c.Lease, r.LeaseUntil = 0, time.Time{} }, store.Acquired,
		},
		{"fresh, forever and without a lease", func(r *store.Record, c *store.Claim) {
			c.Lease, r.LeaseUntil = 0, time.Time{}
			c.Retention, r.ExpiresAt = store.Forever, time.Time{}
		}, store.Acquired},
		{"created before the lease began", func(r *store.Record, _ *store.Claim) {
			r.CreatedAt = r.CreatedAt.Add(-time.Second)
		}, store.TakenOver},
		{"created before the retention began", func(r *store.Record, c *store.Claim) {
			c.Lease, r.LeaseUntil, r.CreatedAt = 0, time.Time{}, r.CreatedAt.Add(-time.Second)
		}, store.TakenOver},
		{
			"with another claim's meta", func(r *store.Record, _ *store.Claim) { r.Meta = []byte("earlier") },
			store.TakenOver,
		},
		{"owned by another claim", func(r *store.Record, _ *store.Claim) { r.Owner = "another" }, 0},
		{"claimed without an owner", func(r *store.Record, c *store.Claim) { r.Owner, c.Owner = "", "" }, 0},
		{"of another payload", func(_ *store.Record, c *store.Claim) { c.Fingerprint = store.Fingerprint{} }, 0},
		{"settled", func(r *store.Record, _ *store.Claim) { r.State = store.StateComplete }, 0},
		{"absent", func(r *store.Record, _ *store.Claim) { *r = store.Record{} }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, claim := acquired, claim
			c.change(&rec, &claim)
			g, ok := store.Held(rec, claim)
			require.Equal(t, c.want != 0, ok)
			require.Equal(t, c.want, g.Verdict)
			if ok {
				require.Equal(t, rec, g.Record)
				require.Equal(t, store.Lease{ID: claim.ID, Fence: 7}, g.Lease)
			} else {
				require.Zero(t, g)
			}
		})
	}
}

// A store that reads and writes one record in a transaction of its engine needs nothing but Judge for its verdict.
func ExampleJudge() {
	now := time.Now()
	claim := store.Claim{ID: store.ID{Key: "order-7"}, Lease: time.Minute, Retention: time.Hour}
	var rec store.Record // as the engine read it; zero if there is none
	verdict := store.Judge(rec, claim, now)
	fmt.Println(verdict)
	if verdict.Owned() { // write it
		rec = store.Record{
			ID:         claim.ID,
			State:      store.StatePending,
			LeaseUntil: now.Add(time.Minute),
			ExpiresAt:  now.Add(time.Hour),
		}
	}
	fmt.Println(store.Judge(rec, claim, now.Add(time.Second)))
	fmt.Println(store.Judge(rec, claim, now.Add(2*time.Minute)))
	// Output:
	// acquired
	// in flight
	// taken over
}

// The response to Reserve was lost. The record shows whether the claim was made.
func ExampleHeld() {
	ctx := context.Background()
	st := memstore.New()
	defer st.Close()
	claim := store.Claim{ID: store.ID{Key: "order-7"}, Lease: time.Minute, Retention: time.Hour, Owner: "7f9c2e1b"}
	_, _ = st.Reserve(ctx, claim) // err is store.ErrUnknown

	rec, err := st.Find(ctx, claim.ID)
	if err != nil {
		fmt.Println(err) // store.ErrNotFound: the claim was not made
		return
	}
	g, held := store.Held(rec, claim)
	fmt.Println(held, g.Verdict)
	fmt.Println(st.Complete(ctx, g.Lease, store.Outcome{Result: []byte("paid")}))

	claim.Owner = "another claim's"
	_, held = store.Held(rec, claim)
	fmt.Println(held)
	// Output:
	// true acquired
	// <nil>
	// false
}
