package sqlitestore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqlitestore"
	"github.com/redo-go/redo/store/sqltx"
)

func TestAListIsWholeAlthoughTheClockWasSetBack(t *testing.T) {
	now := time.Now()
	st := open(t, newFile(t), sqlitestore.WithClock(func() time.Time { return now }))
	const n = sqltx.PageSize + 30
	for i := range n {
		reserve(t, st, unleased(fmt.Sprint(i)), store.Acquired)
		now = now.Add(time.Second)
	}
	now = now.Add(-20 * time.Second)
	listed := 0
	for _, err := range st.Pending(t.Context(), "") {
		require.NoError(t, err)
		listed++
	}
	require.Equal(t, n, listed)
}

func TestExtendRoundsUpToAMicrosecond(t *testing.T) {
	now := time.Now().Truncate(time.Microsecond)
	st := open(t, newFile(t), sqlitestore.WithClock(func() time.Time { return now }))
	g := reserve(t, st, unleased("k"), store.Acquired)
	require.NoError(t, st.Extend(t.Context(), g.Lease, time.Nanosecond, nil))
	rec, err := st.Find(t.Context(), g.Lease.ID)
	require.NoError(t, err)
	require.Equal(t, time.Microsecond, rec.LeaseLeft())
	require.NoError(t, st.Extend(t.Context(), g.Lease, store.Forever-1, nil))
	reserve(t, st, unleased("k"), store.InFlight)
}
