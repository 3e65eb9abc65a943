package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

func TestClaimIsValidated(t *testing.T) {
	valid := store.Claim{ID: store.ID{Scope: "scope", Key: "key"}, Lease: time.Minute, Retention: time.Hour}
	for _, test := range []struct {
		name  string
		claim func(c *store.Claim)
		want  string // empty: valid
	}{
		{"lease and retention", func(*store.Claim) {}, ""},
		{"no lease", func(c *store.Claim) { c.Lease = 0 }, ""},
		{"a lease longer than the retention", func(c *store.Claim) { c.Lease = 2 * c.Retention }, ""},
		{"retention forever", func(c *store.Claim) { c.Retention = store.Forever }, ""},
		{"no scope", func(c *store.Claim) { c.ID.Scope = "" }, ""},
		{"longest scope, key and meta", func(c *store.Claim) {
			c.ID = store.ID{Scope: strings.Repeat("s", store.MaxScope), Key: strings.Repeat("k", store.MaxKey)}
			c.Meta = make([]byte, store.MaxMeta)
		}, ""},
		{"no key", func(c *store.Claim) { c.ID.Key = "" },
			"store: invalid argument: the key is empty"},
		{"too long a key", func(c *store.Claim) { c.ID.Key = strings.Repeat("k", store.MaxKey+1) },
			"store: invalid argument: the key has 1025 bytes, at most 1024 are allowed"},
		{"too long a scope", func(c *store.Claim) { c.ID.Scope = strings.Repeat("s", store.MaxScope+1) },
			"store: invalid argument: the scope has 1025 bytes, at most 1024 are allowed"},
		{"too long a meta", func(c *store.Claim) { c.Meta = make([]byte, store.MaxMeta+1) },
			"store: invalid argument: the meta has 1048577 bytes, at most 1048576 are allowed"},
		{"a negative lease", func(c *store.Claim) { c.Lease = -time.Second },
			"store: invalid argument: the lease is -1s, it must not be negative"},
		{"a lease forever", func(c *store.Claim) { c.Lease = store.Forever },
			"store: invalid argument: a lease can't be Forever, or a crash would block the key for good"},
		{"no retention", func(c *store.Claim) { c.Retention = 0 },
			"store: invalid argument: the retention is 0s, it must be positive"},
		{"a negative retention", func(c *store.Claim) { c.Retention = -time.Second },
			"store: invalid argument: the retention is -1s, it must be positive"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := valid
			test.claim(&c)
			err := c.Validate()
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, store.ErrInvalid)
			require.EqualError(t, err, test.want)
		})
	}
}

func TestOutcomeIsValidated(t *testing.T) {
	for _, retention := range []time.Duration{0, 1, store.Forever} {
		require.NoError(t, store.Outcome{Retention: retention}.Validate())
	}
	err := store.Outcome{Retention: -time.Second}.Validate()
	require.ErrorIs(t, err, store.ErrInvalid)
	require.EqualError(t, err, "store: invalid argument: the outcome's retention is -1s, it must not be negative")
}

func TestOnlyAcquiredAndTakenOverOwn(t *testing.T) {
	for verdict, want := range map[store.Verdict]string{
		0:               "no verdict",
		store.Acquired:  "acquired",
		store.TakenOver: "taken over",
		store.InFlight:  "in flight",
		store.Complete:  "complete",
		store.Failed:    "failed",
		store.Mismatch:  "mismatch",
		255:             "Verdict(255)",
	} {
		require.Equal(t, want, verdict.String())
		require.Equal(t, verdict == store.Acquired || verdict == store.TakenOver, verdict.Owned(), want)
	}
}

func TestStateIsNamed(t *testing.T) {
	for state, want := range map[store.State]string{
		0:                   "no state",
		store.StatePending:  "pending",
		store.StateComplete: "complete",
		store.StateFailed:   "failed",
		255:                 "State(255)",
	} {
		require.Equal(t, want, state.String())
	}
}

func TestRecordIsJudgedByWhenItWasRead(t *testing.T) {
	created := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	r := store.Record{
		ID:         store.ID{Scope: "scope", Key: "key"},
		Fence:      7,
		CreatedAt:  created,
		LeaseUntil: created.Add(time.Minute),
		ReadAt:     created.Add(time.Second),
	}
	require.Equal(t, time.Second, r.Age())
	require.Equal(t, 59*time.Second, r.LeaseLeft())
	require.Equal(t, store.Lease{ID: r.ID, Fence: 7}, r.Lease())
	require.Equal(t, `"scope"/"key"`, r.ID.String())

	r.ReadAt = created.Add(time.Minute)
	require.Zero(t, r.LeaseLeft(), "at the lease's end")
	r.ReadAt = created.Add(time.Hour)
	require.Zero(t, r.LeaseLeft(), "after the lease's end")
	r.LeaseUntil = time.Time{}
	require.Zero(t, r.LeaseLeft(), "without a lease")
}
