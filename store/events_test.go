package store_test

import (
	"encoding/csv"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// The third user of the contract is a consumer of events: its ID is the source and the event's id. Each row of the
// table has a delivery's instant, the instant of its end, and its result. The ledger holds the event once.
func TestTheConsumerTableReplaysAsPrinted(t *testing.T) {
	f, err := os.Open("testdata/consumer_inbox.csv")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"event_id", "source", "first_seen", "processed", "result"}, rows[0])
	require.Len(t, rows, 3)

	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		start, printed := time.Now(), instant(t, rows[1][2])
		ledger := map[string]int{}
		for _, row := range rows[1:] {
			id, seen, processed, want := store.ID{Scope: row[1], Key: row[0]}, instant(t, row[2]), instant(t, row[3]),
				row[4]
			time.Sleep(time.Until(start.Add(seen.Sub(printed))))
			grant, err := st.Reserve(t.Context(), store.Claim{
				ID: id, Fingerprint: store.Raw("", "", "", []byte("the event")), Lease: time.Minute,
				Retention: 4 * 24 * time.Hour,
			})
			require.NoError(t, err)
			got := "replayed"
			if grant.Verdict == store.Acquired {
				time.Sleep(processed.Sub(seen)) // the work
				ledger[id.String()]++
				got = "ok"
				require.NoError(t, st.Complete(t.Context(), grant.Lease, store.Outcome{Result: []byte(got)}))
			} else {
				require.Equal(t, store.Complete, grant.Verdict)
				require.Equal(t, "ok", string(grant.Record.Result), "the first delivery's result is on record")
			}
			require.Equal(t, want, got)
			require.Equal(t, processed.Sub(printed), time.Since(start), "when it was done with")
		}
		require.Equal(t, map[string]int{`"payments"/"ev_001"`: 1}, ledger)
	})
}

func instant(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	require.NoError(t, err)
	return at
}
