package journal_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/journal"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// claim returns the claim that a call makes at now for the operation "refund:1".
func claim(t *testing.T, j journal.Journal, key string) (store.Claim, journal.Request) {
	t.Helper()
	request := journal.Request{Version: journal.Version, Key: key}
	meta := request.Encode()
	return store.Claim{
		ID: j.ID("refund:1"), Owner: journal.NewOwner(time.Now(), 0), Retention: store.Forever, Meta: meta,
	}, request
}

// A lossyStore loses the response of a Reserve that it has made, or the whole request.
type lossyStore struct {
	store.Store
	made bool
}

func (s lossyStore) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if s.made {
		if _, err := s.Store.Reserve(ctx, c); err != nil {
			return store.Grant{}, err
		}
	}
	return store.Grant{}, store.ErrUnknown
}

func TestAClaimWhoseResponseWasLostIsFoundByItsOwner(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		st := memstore.New()
		j := journal.Journal{Store: st, Scope: "redo"}
		if earlier {
			c, _ := claim(t, j, "k0")
			_, err := j.Reserve(t.Context(), c)
			require.NoError(t, err)
		}
		c, request := claim(t, j, "k1")
		j.Store = lossyStore{st, true}
		grant, err := j.Reserve(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, store.TakenOver, grant.Verdict, "an earlier call may have sent the key")
		require.NoError(t, j.Mark(t.Context(), grant.Lease, request), "it owns the record")
	}
}

// The twin: a claim that was never made holds nothing, with any record in the store.
func TestAClaimThatWasNeverMadeHoldsNothing(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		st := memstore.New()
		j := journal.Journal{Store: st, Scope: "redo"}
		if earlier {
			c, _ := claim(t, j, "k1")
			_, err := j.Reserve(t.Context(), c)
			require.NoError(t, err)
		}
		c, _ := claim(t, j, "k1")
		j.Store = lossyStore{st, false}
		_, err := j.Reserve(t.Context(), c)
		require.ErrorIs(t, err, store.ErrUnknown)
	}
}

func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name    string
		s       journal.Settlement
		forgets bool
		state   store.State
		kept    bool
	}{
		{"an effect completes", journal.Settlement{Effect: taxonomy.Applied}, true, store.StateComplete, true},
		{"so does an unknown one", journal.Settlement{Code: taxonomy.Internal}, true, store.StateComplete, true},
		{
			"no effect fails", journal.Settlement{Code: taxonomy.NotFound, Effect: taxonomy.NotApplied}, true,
			store.StateFailed, true,
		},
		{
			"a store that can't forget a failure has none",
			journal.Settlement{Code: taxonomy.NotFound, Effect: taxonomy.NotApplied}, false, store.StateFailed, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := memstore.New()
			j := journal.Journal{Store: st, Scope: "redo", Keep: time.Hour}
			if !c.forgets {
				j.Store = struct{ store.Store }{st}
			}
			made, _ := claim(t, j, "k1")
			grant, err := j.Reserve(t.Context(), made)
			require.NoError(t, err)
			state, err := j.Settle(t.Context(), grant.Lease, c.s)
			require.NoError(t, err)
			require.Equal(t, c.state, state)
			rec, err := st.Find(t.Context(), made.ID)
			if !c.kept {
				require.ErrorIs(t, err, store.ErrNotFound)
				return
			}
			require.NoError(t, err)
			entry, err := journal.Read(rec)
			require.NoError(t, err)
			require.Equal(t, c.state, entry.Record.State)
			require.Equal(t, c.s, *entry.Settlement)
			require.Equal(t, c.s.Effect, entry.Effect())
			require.Equal(t, time.Hour, rec.ExpiresAt.Sub(rec.ReadAt).Round(time.Minute))

			_, err = j.Settle(t.Context(), grant.Lease, c.s)
			require.ErrorIs(t, err, store.ErrLost, "a settled operation is never settled again")
			require.NoError(t, j.Forget(t.Context(), rec))
		})
	}
}

func TestForgetNeedsAStoreThatCan(t *testing.T) {
	st := memstore.New()
	j := journal.Journal{Store: struct{ store.Store }{st}, Scope: "redo"}
	made, _ := claim(t, j, "k1")
	grant, err := j.Reserve(t.Context(), made)
	require.NoError(t, err)
	_, err = j.Settle(t.Context(), grant.Lease, journal.Settlement{Effect: taxonomy.Applied})
	require.NoError(t, err)
	rec, err := st.Find(t.Context(), made.ID)
	require.NoError(t, err)
	require.ErrorContains(t, j.Forget(t.Context(), rec), "no store.Forgetter")
}

func TestPendingNamesTheRecordsThatItCannotRead(t *testing.T) {
	st := memstore.New()
	j := journal.Journal{Store: st, Scope: "redo"}
	made, _ := claim(t, j, "k1")
	_, err := j.Reserve(t.Context(), made)
	require.NoError(t, err)
	made.ID, made.Meta = j.ID("refund:2"), []byte("garbage")
	_, err = j.Reserve(t.Context(), made)
	require.NoError(t, err)
	got := map[string]string{}
	for entry, err := range j.Pending(t.Context()) {
		got[entry.Record.ID.Key] = entry.Request.Key
		require.Equal(t, entry.Record.ID.Key == "refund:2", err != nil)
	}
	require.Equal(t, map[string]string{"refund:1": "k1", "refund:2": ""}, got)

	j.Store = struct{ store.Store }{st}
	for entry, err := range j.Pending(t.Context()) {
		require.Zero(t, entry)
		require.ErrorContains(t, err, "no store.Lister")
	}
}

func TestTheEffectOfAPendingOperation(t *testing.T) {
	rest := journal.Settlement{Code: taxonomy.OutcomeUnknown, Effect: taxonomy.EffectUnknown}
	for _, c := range []struct {
		name string
		req  journal.Request
		want taxonomy.Effect
	}{
		{"is unknown once it may have been sent", journal.Request{Key: "k1"}, taxonomy.EffectUnknown},
		{"is none while each attempt was refused", journal.Request{Key: "k1", Unapplied: true}, taxonomy.NotApplied},
		{
			"is that of the response it rests on", journal.Request{Key: "k1", Unapplied: true, Rest: rest.Encode()},
			taxonomy.EffectUnknown,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.Version = journal.Version
			meta := c.req.Encode()
			entry, err := journal.Read(store.Record{State: store.StatePending, Meta: meta})
			require.NoError(t, err)
			require.Equal(t, c.want, entry.Effect())
		})
	}
	_, err := journal.Read(store.Record{State: store.StatePending, Meta: []byte(`{"v":1,"key":"k1","rest":"AQ=="}`)})
	require.ErrorContains(t, err, "cut off")
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		j := journal.Journal{Store: st, Scope: "redo"}
		call := func() {
			made, _ := claim(t, j, "k1")
			_, err := j.Reserve(t.Context(), made)
			require.NoError(t, err)
		}
		idle := func(now time.Time) time.Duration {
			rec, err := st.Find(t.Context(), j.ID("refund:1"))
			require.NoError(t, err)
			return journal.Idle(rec, now)
		}
		call()
		time.Sleep(time.Hour)
		require.Equal(t, time.Hour, idle(time.Now()), "since the first call")
		call()
		require.Zero(t, idle(time.Now()))
		time.Sleep(10 * time.Minute)
		require.Equal(t, 10*time.Minute, idle(time.Now()), "since the last call, and no write but its claim was made")

		require.Zero(t, idle(time.Now().Add(-10*time.Minute-time.Second)), "a clock that is a little ahead is believed")
		require.Equal(t, 70*time.Minute, idle(time.Now().Add(-time.Hour)), "and one that is far ahead is not")
		require.Equal(t, 70*time.Minute, idle(time.Now().Add(24*time.Hour)), "an operation was called when it was made")
		made, _ := claim(t, j, "k1")
		made.Owner = journal.NewOwner(time.Now(), 50*time.Second)
		_, err := j.Reserve(t.Context(), made)
		require.NoError(t, err)
		time.Sleep(49 * time.Second)
		require.Zero(t, idle(time.Now()), "the call may still run")
		time.Sleep(6 * time.Second)
		require.Equal(t, 5*time.Second, idle(time.Now()))
	})
	for _, owner := range []string{"", "another program", "-.x"} {
		rec := store.Record{Owner: owner, CreatedAt: time.Now().Add(-time.Hour)}
		rec.ReadAt = rec.CreatedAt.Add(time.Hour)
		require.Equal(t, time.Hour, journal.Idle(rec, time.Now()), "%q", owner)
	}
}

func TestNoTwoClaimsHaveOneOwner(t *testing.T) {
	now := time.Now()
	one, two := journal.NewOwner(now, 1<<62), journal.NewOwner(now, 1<<62)
	require.NotEqual(t, one, two)
	require.LessOrEqual(t, len(one), store.MaxOwner)
}

func TestTheStoredRequestIsSentAsItWas(t *testing.T) {
	r := journal.Request{
		Method: "POST", URL: "https://bank.test/refunds?x=1", Host: "front.test", Body: []byte("1000"),
		Header: http.Header{"Accept": {"*/*"}},
	}
	req, err := r.HTTP(t.Context())
	require.NoError(t, err)
	var sent strings.Builder
	require.NoError(t, req.Write(&sent))
	require.Equal(t, "POST /refunds?x=1 HTTP/1.1\r\nHost: front.test\r\nUser-Agent: Go-http-client/1.1\r\n"+
		"Content-Length: 4\r\nAccept: */*\r\n\r\n1000", sent.String())
	req.Header.Set("Accept", "text/plain")
	require.Equal(t, "*/*", r.Header.Get("Accept"), "the stored one is not changed")

	_, err = journal.Request{Method: "POST", URL: "https://user:hunter2@%zz"}.HTTP(t.Context())
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}
