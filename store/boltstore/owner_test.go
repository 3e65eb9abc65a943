package boltstore

import (
	"context"
	"testing"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func TestOwnerIsKeptInTheFileWhileTheRecordIsPending(t *testing.T) {
	path := tempFile(t)
	s := mustOpen(t, path)
	c := claim("k")
	c.Owner = "first"
	require.Equal(t, "first", mustReserve(t, s, c, store.Acquired).Record.Owner)
	require.NoError(t, s.Close())
	s = mustOpen(t, path)
	require.Equal(t, "first", find(t, s, "k").Owner)

	c.Owner = "second"
	l := mustReserve(t, s, c, store.TakenOver).Lease
	require.NoError(t, s.Close())
	s = mustOpen(t, path)
	require.Equal(t, "second", find(t, s, "k").Owner)
	require.NoError(t, s.Complete(t.Context(), l, store.Outcome{}))
	require.Empty(t, find(t, s, "k").Owner)
	require.NoError(t, s.Close())
	require.Empty(t, find(t, mustOpen(t, path), "k").Owner)
}

func TestOwnerSettlesAReserveWhoseCommitMayBeOnDisk(t *testing.T) {
	for name, commit := range map[string]func(*bbolt.Tx) error{"and is": betray, "and is not": func(tx *bbolt.Tx) error {
		return refuse(tx)
	}} {
		t.Run(name, func(t *testing.T) {
			s, g := gated(t)
			c := claim("k")
			c.Owner = "nonce"
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := s.Reserve(ctx, c)
				done <- err
			}()
			<-g.arrived
			cancel()
			require.ErrorIs(t, <-done, store.ErrUnknown)
			g.verdict <- commit
			go g.let(t)
			rec, err := s.Find(t.Context(), c.ID)
			if name == "and is not" {
				require.ErrorIs(t, err, store.ErrNotFound)
				return
			}
			require.NoError(t, err)
			grant, ok := store.Held(rec, c)
			require.True(t, ok)
			require.Equal(t, store.Acquired, grant.Verdict)
			c.Owner = "another"
			_, ok = store.Held(rec, c)
			require.False(t, ok)
		})
	}
}

// let lets one commit through, if it comes before the test ends.
func (g *gate) let(t *testing.T) {
	select {
	case <-g.arrived:
		g.verdict <- (*bbolt.Tx).Commit
	case <-t.Context().Done():
	}
}

func TestFileOfTheFirstVersionOpens(t *testing.T) {
	path := tempFile(t)
	s := mustOpen(t, path)
	c := claim("k")
	c.Lease = 0
	mustReserve(t, s, c, store.Acquired)
	mustSettle(t, s, "settled", store.Outcome{Result: []byte("result")})
	require.NoError(t, s.Close())
	edit(t, path, func(tx *bbolt.Tx) error {
		records := tx.Bucket(rootName).Bucket(recordsName)
		for _, key := range []string{"k", "settled"} {
			k := envelope.AppendKey(nil, claim(key).ID)
			r, err := decodeRecord(k, records.Get(k))
			require.NoError(t, err)
			require.NoError(t, records.Put(k, firstVersion(k, r)))
		}
		return nil
	})
	s = mustOpen(t, path)
	require.NoError(t, s.Verify(t.Context()))
	require.Equal(t, "result", string(find(t, s, "settled").Result))
	c.Owner = "nonce"
	g := mustReserve(t, s, c, store.TakenOver)
	require.Equal(t, "meta of k", string(g.Record.Meta))
	require.NoError(t, s.Close())
	require.Equal(t, "nonce", find(t, mustOpen(t, path), "k").Owner)
}
