package store_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/store/storetest"
)

func TestASealedStoreKeepsTheContract(t *testing.T) {
	k := keyring(t, store.SealKeys{Seal: sealKey("a")})
	storetest.Run(t, func(*testing.T) store.Store { return store.Sealed(memstore.New(), k) }, storetest.Virtual())
}

func TestASealedStoreHasTheCapabilitiesOfItsEngine(t *testing.T) {
	k := keyring(t, store.SealKeys{Seal: sealKey("a")})
	full := store.Sealed(memstore.New(), k)
	require.Implements(t, (*store.Lister)(nil), full)
	require.Implements(t, (*store.Forgetter)(nil), full)
	require.Implements(t, (*store.Dropper)(nil), full)
	bare := store.Sealed(struct{ store.Store }{memstore.New()}, k)
	require.NotImplements(t, (*store.Lister)(nil), bare)
	for _, st := range []store.Store{full, bare} {
		require.Implements(t, (*store.Waiter)(nil), st)
		require.Implements(t, (*store.Checker)(nil), st)
		require.NoError(t, st.(store.Checker).Check(t.Context()))
	}
}

func TestASealedStoreWithoutStoreOrKeyringRefusesEveryCall(t *testing.T) {
	for _, st := range []store.Store{
		store.Sealed(nil, keyring(t, store.SealKeys{Seal: sealKey("a")})),
		store.Sealed((*memstore.Store)(nil), keyring(t, store.SealKeys{Seal: sealKey("a")})),
		store.Sealed(memstore.New(), nil),
		store.Sealed(memstore.New(), &store.Keyring{}),
	} {
		_, err := st.Reserve(t.Context(), claim("k"))
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorIs(t, st.Complete(t.Context(), store.Lease{}, store.Outcome{Result: []byte("x")}),
			store.ErrInvalid)
		require.ErrorIs(t, st.(store.Checker).Check(t.Context()), store.ErrInvalid)
	}
}

func claim(key string) store.Claim {
	return store.Claim{
		ID:        store.ID{Scope: "s", Key: key},
		Lease:     time.Minute,
		Retention: time.Hour,
		Owner:     "me",
		Meta:      []byte("meta " + key),
	}
}

func reserve(t *testing.T, st store.Store, c store.Claim, want store.Verdict) store.Grant {
	t.Helper()
	g, err := st.Reserve(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, want, g.Verdict)
	return g
}

// settled reserves and completes a record, and returns it as the engine keeps it.
func settled(t *testing.T, engine, st store.Store, key, result string) store.Record {
	t.Helper()
	g := reserve(t, st, claim(key), store.Acquired)
	require.NoError(t, st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte(result)}))
	rec, err := engine.Find(t.Context(), g.Lease.ID)
	require.NoError(t, err)
	return rec
}

func TestTheEngineSeesNoPlainText(t *testing.T) {
	engine := memstore.New()
	st := store.Sealed(engine, keyring(t, store.SealKeys{Seal: sealKey("a")}))
	one, two := settled(t, engine, st, "1", "the secret"), settled(t, engine, st, "2", "the secret")
	require.NotContains(t, string(one.Result), "secret")
	require.NotContains(t, string(one.Meta), "meta")
	require.NotEqual(t, one.Result, two.Result, "equal values must not look equal")
	got, err := st.Find(t.Context(), one.ID)
	require.NoError(t, err)
	require.Equal(t, "the secret", string(got.Result))
	require.Equal(t, "meta 1", string(got.Meta))
	again := reserve(t, st, claim("1"), store.Complete)
	require.Equal(t, "the secret", string(again.Record.Result))
}

// tamper changes the engine's bytes of a record, behind the seal.
func tamper(t *testing.T, engine store.Store, from store.Record, meta, result []byte) {
	t.Helper()
	require.NoError(t, engine.(store.Forgetter).Forget(t.Context(), from.Lease()))
	g := reserve(
		t,
		engine,
		store.Claim{ID: from.ID, Fingerprint: from.Fingerprint, Meta: meta, Retention: time.Hour},
		store.Acquired,
	)
	require.NoError(t, engine.Complete(t.Context(), g.Lease, store.Outcome{Result: result}))
}

func TestAValueOpensOnlyWhereItWasSealed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(one, two store.Record) (meta, result []byte)
		why    string
	}{
		"of another field, as meta": {
			func(one, _ store.Record) ([]byte, []byte) { return one.Result, one.Result }, "the sealed meta of ",
		},
		"as result": {
			func(one, _ store.Record) ([]byte, []byte) { return one.Meta, []byte("planted") }, "the sealed result of ",
		},
		"of another record": {
			func(one, two store.Record) ([]byte, []byte) { return one.Meta, two.Result }, `key "a" does not open it`,
		},
		"of another field": {
			func(one, _ store.Record) ([]byte, []byte) { return one.Meta, one.Meta }, `key "a" does not open it`,
		},
		"with a bit turned": {func(one, _ store.Record) ([]byte, []byte) {
			result := bytes.Clone(one.Result)
			result[len(result)-1] ^= 1
			return one.Meta, result
		}, `key "a" does not open it`},
		"cut":        {func(one, _ store.Record) ([]byte, []byte) { return one.Meta, one.Result[:8] }, "it is cut off"},
		"removed":    {func(one, _ store.Record) ([]byte, []byte) { return one.Meta, nil }, "it is missing"},
		"made empty": {func(one, _ store.Record) ([]byte, []byte) { return one.Meta, []byte{} }, "it is not sealed"},
		"in clear": {
			func(one, _ store.Record) ([]byte, []byte) { return one.Meta, []byte("planted") }, "it is not sealed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			engine := memstore.New()
			st := store.Sealed(engine, keyring(t, store.SealKeys{Seal: sealKey("a")}))
			one, two := settled(t, engine, st, "1", "first"), settled(t, engine, st, "2", "second")
			meta, result := c.change(one, two)
			tamper(t, engine, one, meta, result)
			_, err := st.Find(t.Context(), one.ID)
			require.ErrorIs(t, err, store.ErrDamaged)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, c.why)
			require.ErrorContains(t, err, one.ID.String())
			_, err = st.Reserve(t.Context(), claim("1"))
			require.ErrorIs(t, err, store.ErrDamaged, "a damaged record is never absent")
			require.NoError(t, st.(store.Dropper).Drop(t.Context(), one.ID))
			reserve(t, st, claim("1"), store.Acquired)
			require.ErrorIs(t, st.(store.Dropper).Drop(t.Context(), two.ID), store.ErrInvalid,
				"a sound record is not dropped")
		})
	}
	t.Run("put back as it was, it opens", func(t *testing.T) {
		engine := memstore.New()
		st := store.Sealed(engine, keyring(t, store.SealKeys{Seal: sealKey("a")}))
		one := settled(t, engine, st, "1", "first")
		tamper(t, engine, one, one.Meta, one.Result)
		got, err := st.Find(t.Context(), one.ID)
		require.NoError(t, err)
		require.Equal(t, "first", string(got.Result))
	})
}

func TestANilResultIsSealedToo(t *testing.T) {
	engine := memstore.New()
	st := store.Sealed(engine, keyring(t, store.SealKeys{Seal: sealKey("a")}))
	for key, result := range map[string][]byte{"nil": nil, "empty": {}} {
		g := reserve(t, st, claim(key), store.Acquired)
		require.NoError(t, st.Complete(t.Context(), g.Lease, store.Outcome{Result: result}))
		raw, err := engine.Find(t.Context(), g.Lease.ID)
		require.NoError(t, err)
		require.NotEmpty(t, raw.Result)
		got, err := st.Find(t.Context(), g.Lease.ID)
		require.NoError(t, err)
		require.Equal(t, result, got.Result, key)
	}
}

// A clinging store does not give leases up, and does not respond.
type clinging struct{ store.Store }

func (clinging) Extend(ctx context.Context, _ store.Lease, _ time.Duration, _ []byte) error {
	<-ctx.Done()
	return store.ErrUnavailable
}

func TestALeaseOnAnUnreadableMetaThatIsNotGivenUpIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := memstore.New()
		c := claim("k")
		c.Lease = 0
		reserve(t, store.Sealed(engine, keyring(t, store.SealKeys{Seal: sealKey("old")})), c, store.Acquired)
		st := store.Sealed(clinging{engine}, keyring(t, store.SealKeys{Seal: sealKey("new")}))
		_, err := st.Reserve(t.Context(), claim("k"))
		require.ErrorIs(t, err, store.ErrUnknown)
		require.ErrorIs(t, err, store.ErrUnavailable)
	})
}

func TestATakeOverOfAnUnreadableMetaIsHandedBack(t *testing.T) {
	engine := memstore.New()
	old := store.Sealed(engine, keyring(t, store.SealKeys{Seal: sealKey("old")}))
	c := claim("k")
	c.Lease = 0
	reserve(t, old, c, store.Acquired)

	st := store.Sealed(engine, keyring(t, store.SealKeys{Seal: sealKey("new")}))
	_, err := st.Reserve(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrDamaged, "the key is missing, and the record is sound")
	require.NotErrorIs(t, err, store.ErrUnknown, "nothing is left to settle")
	require.ErrorContains(t, err, `the key "old", which is not in the keyring`)
	require.ErrorIs(t, st.(store.Dropper).Drop(t.Context(), c.ID), store.ErrUnavailable,
		"a sound record is not dropped")

	g := reserve(t, old, claim("k"), store.TakenOver)
	require.Equal(t, "meta k", string(g.Record.Meta))
}

func TestADamagedSealDoesNotEndAList(t *testing.T) {
	engine := memstore.New()
	old := store.Sealed(engine, keyring(t, store.SealKeys{Seal: sealKey("old")}))
	st := store.Sealed(engine, keyring(t, store.SealKeys{Seal: sealKey("new")}))
	reserve(t, old, claim("1"), store.Acquired)
	reserve(t, st, claim("2"), store.Acquired)
	var read, failed []string
	for r, err := range st.(store.Lister).Pending(t.Context(), "") {
		if err != nil {
			require.ErrorIs(t, err, store.ErrUnavailable)
			failed = append(failed, r.ID.Key)
			continue
		}
		read = append(read, string(r.Meta))
	}
	require.Equal(t, []string{"1"}, failed)
	require.Equal(t, []string{"meta 2"}, read)

	_, unread := st.Find(t.Context(), claim("1").ID)
	_, err := st.Reserve(t.Context(), claim("1")) // in flight
	require.EqualError(t, err, unread.Error())
}

func TestValuesOfBeforeAreReadOnlyByChoice(t *testing.T) {
	engine := memstore.New()
	settled(t, engine, engine, "k", "of before")
	k := keyring(t, store.SealKeys{Seal: sealKey("a")})
	st := store.Sealed(engine, k)
	_, err := st.Find(t.Context(), claim("k").ID)
	require.ErrorContains(t, err, "it is not sealed")
	require.NoError(t, k.Set(store.SealKeys{Seal: sealKey("a"), AcceptPlain: true}))
	rec, err := st.Find(t.Context(), claim("k").ID)
	require.NoError(t, err)
	require.Equal(t, "of before", string(rec.Result))
}

func TestAnUnknownOutcomeOfTheEngineIsReadInClear(t *testing.T) {
	engine := memstore.New()
	g := reserve(t, engine, store.Claim{ID: claim("k").ID, Retention: time.Hour}, store.Acquired)
	require.NoError(t, engine.Complete(t.Context(), g.Lease, store.UnknownOutcome()))
	rec, err := store.Sealed(engine, keyring(t, store.SealKeys{Seal: sealKey("a")})).Find(t.Context(), g.Lease.ID)
	require.NoError(t, err)
	require.True(t, rec.OutcomeUnknown())
}

// Two processes rotate a key one after the other, by the steps that Set documents, while both serve requests.
func TestARotationFailsNoRequest(t *testing.T) {
	engine := memstore.New()
	a, b := sealKey("a"), sealKey("b")
	rings := [2]*store.Keyring{keyring(t, store.SealKeys{Seal: a}), keyring(t, store.SealKeys{Seal: a})}
	stores := [2]store.Store{store.Sealed(engine, rings[0]), store.Sealed(engine, rings[1])}
	oldest := settled(t, engine, stores[0], "oldest", "result")

	steps := []store.SealKeys{{Seal: a, Open: []store.SealKey{b}}, {Seal: b, Open: []store.SealKey{a}}}
	rotated := make(chan struct{})
	var load sync.WaitGroup
	for worker := range 4 {
		load.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%d/%d", worker, i)
				if !serve(t, stores, key) {
					return
				}
				select {
				case <-rotated:
					return
				default:
				}
			}
		})
	}
	for _, step := range steps {
		for _, ring := range rings {
			require.NoError(t, ring.Set(step))
			for i := range 50 {
				serve(t, stores, fmt.Sprintf("%s/%p/%d", step.Seal.ID, ring, i))
			}
		}
	}
	close(rotated)
	load.Wait()

	got, err := stores[1].Find(t.Context(), oldest.ID)
	require.NoError(t, err)
	require.Equal(t, "result", string(got.Result))
	require.NoError(t, rings[1].Set(store.SealKeys{Seal: b}), "after the retention")
	_, err = stores[1].Find(t.Context(), oldest.ID)
	require.ErrorContains(t, err, `the key "a", which is not in the keyring`)
	serve(t, stores, "after the rotation")
}

// serve lets one process reserve and complete a record, and the other replay it. It reports whether all of it was
// right.
func serve(t *testing.T, stores [2]store.Store, key string) bool {
	ctx := context.WithoutCancel(t.Context())
	for first := range 2 {
		c := claim(fmt.Sprintf("%s/%d", key, first))
		g, err := stores[first].Reserve(ctx, c)
		if err == nil {
			err = stores[first].Complete(ctx, g.Lease, store.Outcome{Result: []byte(key)})
		}
		if err == nil {
			g, err = stores[1-first].Reserve(ctx, c)
		}
		if err != nil || g.Verdict != store.Complete || string(g.Record.Result) != key {
			t.Errorf("%s: %v, result %q: %v", key, g.Verdict, g.Record.Result, err)
			return false
		}
	}
	return true
}

// A seal must cost less than 1 µs per KiB: the figure to compare is ns/op.
func BenchmarkSealed(b *testing.B) {
	value := make([]byte, 1<<10)
	_, _ = rand.Read(value)
	k := keyring(b, store.SealKeys{Seal: sealKey("a")})
	for name, st := range map[string]store.Store{"plain": memstore.New(), "sealed": store.Sealed(memstore.New(), k)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			b.ReportAllocs()
			for i := range b.N {
				c := store.Claim{ID: store.ID{Key: fmt.Sprintf("%d/%d", b.N, i)}, Retention: time.Hour}
				g, err := st.Reserve(b.Context(), c)
				if err != nil {
					b.Fatal(err)
				}
				if err := st.Complete(b.Context(), g.Lease, store.Outcome{Result: value}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
