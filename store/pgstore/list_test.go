package pgstore_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

func TestARecordThatIsMadeAnewIsNotListed(t *testing.T) {
	const n = 70 // more than the records that are read at a time
	st := newPlace(t).open(t)
	for i := range n {
		reserve(t, st, unleased(fmt.Sprint(i)), store.Acquired)
	}
	listed := 0
	for r, err := range st.Pending(t.Context(), "") {
		require.NoError(t, err)
		if listed == 0 {
			remade := unleased(fmt.Sprint(n - 1))
			l := reserve(t, st, remade, store.TakenOver).Lease
			require.NoError(t, st.Release(t.Context(), l))
			reserve(t, st, remade, store.Acquired)
		}
		require.NotEqual(t, fmt.Sprint(n-1), r.ID.Key)
		listed++
	}
	require.Equal(t, n-1, listed)
}
