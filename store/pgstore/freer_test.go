package pgstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
)

func TestSearchesForExpiredRecordsPause(t *testing.T) {
	last := pgtype.Timestamptz{Time: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), Valid: true}
	for name, c := range map[string]struct {
		do   func(f *freer)
		want time.Duration // until the next search
		from pgtype.Timestamptz
	}{
		"the first search has no pause": {func(*freer) {}, 0, start},
		"a search that found two has no pause, and the next one begins near them": {
			func(f *freer) { f.did(freed{2, last}) }, 0, pgtype.Timestamptz{Time: last.Time.Add(-freeSlack), Valid: true},
		},
		"a search that found one": {
			func(f *freer) { f.did(freed{1, last}) },
			freePause, pgtype.Timestamptz{Time: last.Time.Add(-freeSlack), Valid: true},
		},
		"a search that found a damaged record": {
			func(f *freer) {
				f.did(freed{1, pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}})
			},
			freePause, start,
		},
		"a search that found none": {func(f *freer) { f.did(freed{}) }, freePause, start},
		"a refused claim":          {func(f *freer) { f.refused() }, freeRetry, start},
		"a record that expires before the next search": {func(f *freer) {
			f.did(freed{})
			f.expiresIn(freePause / 4)
			f.expiresIn(freePause / 2)
		}, freePause / 4, start},
		"a record that expires after the next search": {func(f *freer) {
			f.refused()
			f.expiresIn(freePause / 2)
			f.expiresIn(freePause)
		}, freeRetry, start},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f freer
				c.do(&f)
				if c.want > 0 {
					time.Sleep(c.want - time.Nanosecond)
					_, due := f.due()
					require.False(t, due)
					time.Sleep(time.Nanosecond)
				}
				from, due := f.due()
				require.True(t, due)
				require.Equal(t, c.from, from)
			})
		})
	}
}

var start = pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
