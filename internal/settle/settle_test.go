package settle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/settle"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

var (
	errDown = errors.Join(store.ErrUnavailable, errors.New("connection refused"))
	errCut  = errors.Join(store.ErrUnknown, errors.New("connection reset"))
	id      = store.ID{Key: "k"}
)

// A flaky store fails its first writes with the errors, in order. A nil error makes the write.
type flaky struct {
	*memstore.Store
	errs  []error
	made  bool // also if the error is errCut
	calls int
}

func (f *flaky) write(do func() error) error {
	f.calls++
	if len(f.errs) == 0 {
		return do()
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	if err == nil || f.made && errors.Is(err, errCut) {
		return errors.Join(err, do())
	}
	return err
}

func (f *flaky) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	return f.write(func() error { return f.Store.Complete(ctx, l, o) })
}

func (f *flaky) Release(ctx context.Context, l store.Lease) error {
	return f.write(func() error { return f.Store.Release(ctx, l) })
}

func TestAWriteIsRepeatedWhileItIsOpen(t *testing.T) {
	for _, c := range []struct {
		rule    string
		release bool
		made    bool
		errs    []error
		calls   int
		want    error
	}{
		{rule: "a write that succeeds is made once", calls: 1},
		{rule: "a write that failed is made again", errs: []error{errDown, errDown}, calls: 3},
		{rule: "a lost response of a write that was made ends it", made: true, errs: []error{errCut}, calls: 1},
		{rule: "a lost response of a write that was not made repeats it", errs: []error{errCut}, calls: 2},
		{
			rule:    "a lost response of a release that was made ends it",
			release: true, made: true, errs: []error{errCut}, calls: 1,
		},
		{rule: "a lost lease ends it", errs: []error{store.ErrLost}, calls: 1, want: store.ErrLost},
		{rule: "a refused result ends it", errs: []error{store.ErrInvalid}, calls: 1, want: store.ErrInvalid},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &flaky{Store: memstore.New(), errs: c.errs, made: c.made}
				g, err := st.Reserve(t.Context(), store.Claim{ID: id, Fingerprint: store.Raw("POST", "/", "", nil),
					Lease: time.Minute, Retention: time.Hour})
				require.NoError(t, err)
				w := settle.Write{Store: st, Lease: g.Lease, TTL: time.Minute, Release: c.release, Renewed: time.Now()}
				attempt := func() error { return w.Try(t.Context()) }
				require.ErrorIs(t, settle.Repeat(t.Context(), w.TTL, attempt(), attempt), c.want)
				require.Equal(t, c.calls, st.calls)
			})
		})
	}
}

// An operator may settle the record under the same fence, while the owner is stopped.
func TestARecordWithAnotherOutcomeDoesNotShowTheWrite(t *testing.T) {
	mine, other := store.Outcome{Result: []byte("mine")}, store.Outcome{Result: []byte("another")}
	for _, c := range []struct {
		rule    string
		settled store.Outcome
		release bool
		want    error
	}{
		{rule: "the same outcome", settled: mine},
		{rule: "another result", settled: other, want: store.ErrLost},
		{rule: "another state", settled: store.Outcome{Failed: true, Result: mine.Result}, want: store.ErrLost},
		{rule: "an outcome instead of a release", settled: mine, release: true, want: store.ErrLost},
	} {
		t.Run(c.rule, func(t *testing.T) {
			st := memstore.New()
			g, err := st.Reserve(t.Context(), store.Claim{ID: id, Fingerprint: store.Raw("POST", "/", "", nil),
				Lease: time.Minute, Retention: time.Hour})
			require.NoError(t, err)
			require.NoError(t, st.Complete(t.Context(), g.Lease, c.settled))
			w := settle.Write{Store: st, Lease: g.Lease, TTL: time.Minute, Outcome: mine, Release: c.release}
			require.ErrorIs(t, w.Check(t.Context(), errCut), c.want)
		})
	}
}

func TestTheLeaseLastsUntilTheWriteIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &flaky{Store: memstore.New()}
		for range 40 {
			st.errs = append(st.errs, errDown)
		}
		const ttl = 6 * time.Second
		claim := store.Claim{ID: id, Fingerprint: store.Raw("POST", "/", "", nil), Lease: ttl, Retention: time.Hour}
		g, err := st.Reserve(t.Context(), claim)
		require.NoError(t, err)
		w := settle.Write{Store: st, Lease: g.Lease, TTL: ttl, Renewed: time.Now()}
		attempt := func() error {
			other, err := st.Reserve(t.Context(), claim)
			require.NoError(t, err)
			require.Equal(t, store.InFlight, other.Verdict)
			return w.Try(t.Context())
		}
		require.NoError(t, settle.Repeat(t.Context(), ttl, attempt(), attempt))
	})
}

func TestTheEndOfTheContextEndsTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, settle.Repeat(ctx, time.Minute, errDown, func() error { return errDown }), errDown)
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}
