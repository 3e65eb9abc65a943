package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func TestEachCaseStatesItsRule(t *testing.T) {
	for _, c := range Cases() {
		require.NotEmpty(t, c.Name)
		require.Regexp(t, `^[A-Z].*\.$`, c.Rule, "case %q", c.Name)
		require.NotNil(t, c.run, "case %q", c.Name)
	}
}

func TestFailureTellsTheRule(t *testing.T) {
	i := slices.IndexFunc(Cases(), func(c Case) bool { return c.Name == "second complete is lost" })
	c := Cases()[i]
	r := record(t, config{}, c, func(*testing.T) store.Store {
		return newBroken(func(b *broken, s *memstore.Store) {
			b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
				if err := s.Complete(ctx, l, o); !errors.Is(err, store.ErrLost) {
					return err
				}
				return nil
			}
		})
	})
	require.Equal(t, []string{
		`the second Complete: error <nil>, want one that is "store: lease lost"` + "\nthe rule: " + c.Rule,
	}, r.messages)
}

// bare hides the methods of a store beyond the contract's six.
type bare struct{ store.Store }

func TestCasesOfWhatIsNotOfferedAreSkipped(t *testing.T) {
	optional := slices.Concat(waiterCases, listerCases, forgetterCases, damageCases, faultCases, handleCases,
		reopenCases)
	for _, c := range Cases() {
		r := record(t, config{}, c, func(*testing.T) store.Store { return bare{memstore.New()} })
		require.Empty(t, r.messages, "case %q", c.Name)
		isOptional := c.Name == "fence grows over forget" ||
			slices.ContainsFunc(optional, func(o Case) bool { return o.Name == c.Name })
		require.Equal(t, isOptional, r.skipped, "case %q", c.Name)
	}
}

func TestSelfExpiringStorePassesWhenItSaysSo(t *testing.T) {
	selfExpiring := func(b *broken, s *memstore.Store) {
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			_, _ = s.Purge(ctx, 1<<20)
			return s.Find(ctx, id)
		}
	}
	require.NotEmpty(t, mutant{defect: selfExpiring}.failing(t))

	for _, c := range Cases() {
		cfg := mutant{}.config()
		cfg.selfExpiring = true
		r := record(t, cfg, c, func(*testing.T) store.Store { return newBroken(selfExpiring) })
		require.Empty(t, r.messages, "case %q", c.Name)
	}
}

func TestNilOptionIsNone(t *testing.T) {
	Run(t, func(*testing.T) store.Store { return memstore.New() }, nil, Virtual())
}
