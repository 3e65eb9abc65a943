package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// soon is a timeout that is meant to run out.
const soon = 20 * time.Millisecond

// waited returns how many WAITs a server has carried out.
func waited(t *testing.T, url string) string {
	t.Helper()
	info, err := command(t, url, "INFO", "commandstats").ToString()
	require.NoError(t, err)
	_, stats, _ := strings.Cut(info, "cmdstat_wait:calls=")
	calls, _, _ := strings.Cut(stats, ",")
	return calls
}

func TestReplicasAcknowledge(t *testing.T) {
	primary := privateEngine(t)
	replica := privateReplica(t, primary)
	st := open(t, primary.url(), redisstore.WithReplicas(1, patience))
	l := acquire(t, st, claim("k")).Lease
	key := recordKey(t, primary.url(), "redo")
	onReplica := func(t *testing.T) string {
		t.Helper()
		state, err := command(t, replica.url(), "GETRANGE", key, "5", "5").ToString()
		require.NoError(t, err)
		return state
	}
	require.Equal(t, "p", onReplica(t), "a reservation is there when Reserve returns")
	require.NoError(t, command(t, primary.url(), "SCRIPT", "FLUSH").Error())
	require.NoError(t, st.Complete(t.Context(), l, store.Outcome{Result: []byte("result")}))
	require.Equal(t, "c", onReplica(t), "a completion is there when Complete returns")

	t.Run("it survives an immediate loss of the primary", func(t *testing.T) {
		c := claim("last")
		c.Lease = 0
		first := acquire(t, st, c).Lease
		require.NoError(t, st.Complete(t.Context(), acquire(t, st, claim("done")).Lease, store.Outcome{}))
		primary.kill()
		replica.promote(t)
		after := open(t, replica.url())
		require.Equal(t, store.StateComplete, mustFind(t, after, claim("done").ID).State)
		g, err := after.Reserve(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, store.TakenOver, g.Verdict)
		require.Greater(t, g.Lease.Fence, first.Fence)
	})
}

func TestContractWithReplicas(t *testing.T) {
	racetest.Repeats(t)
	primary := privateEngine(t)
	privateReplica(t, primary)
	contract(t, primary.url(), redisstore.WithReplicas(1, patience))
}

func TestReplicasDoNotAcknowledge(t *testing.T) {
	primary := privateEngine(t)
	p := newProxy(t, primary.port)
	replica := privateEngine(t, "--replicaof", "127.0.0.1", strings.TrimPrefix(p.url(), "redis://127.0.0.1:"))
	replica.inStepWith(t, primary)
	shared := client(t, primary.url())
	on := func(timeout time.Duration) *redisstore.Store {
		st, err := redisstore.New(t.Context(), shared, redisstore.WithReplicas(1, timeout))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		return st
	}
	st, long := on(soon), on(patience)
	direct := open(t, primary.url())
	begun := acquire(t, direct, claim("begun")).Lease
	lazy := acquire(t, direct, claim("lazy")).Lease
	settled := acquire(t, direct, claim("settled")).Lease
	require.NoError(t, direct.Complete(t.Context(), settled, store.Outcome{Result: []byte("result")}))
	unleased := claim("unleased")
	unleased.Lease, unleased.Meta = 0, []byte("first")
	earlier := acquire(t, direct, unleased).Lease
	// Open connections whose own writes were acknowledged: a WAIT on one of them would succeed.
	for _, key := range []string{"warm", "warmer"} {
		require.NoError(t, long.Complete(t.Context(), acquire(t, long, claim(key)).Lease, store.Outcome{}))
	}
	replica.inStepWith(t, primary)
	p.set(stallHere) // the replica goes on to read, and acknowledges no more
	<-p.faulted

	unknown := func(t *testing.T, err error) {
		t.Helper()
		require.ErrorIs(t, err, store.ErrUnknown)
		require.NotErrorIs(t, err, store.ErrUnavailable)
	}
	t.Run("a reservation is unknown and blocks no claim", func(t *testing.T) {
		g, err := st.Reserve(t.Context(), claim("new"))
		unknown(t, err)
		require.Zero(t, g)
		_, err = direct.Find(t.Context(), claim("new").ID)
		require.ErrorIs(t, err, store.ErrNotFound)
	})
	t.Run("a take-over is unknown, and the record stays for the next one to take over", func(t *testing.T) {
		c := unleased
		c.Lease = time.Hour
		_, err := st.Reserve(t.Context(), c)
		unknown(t, err)
		require.Greater(t, mustFind(t, direct, c.ID).Fence, earlier.Fence)
		g, err := direct.Reserve(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, store.TakenOver, g.Verdict)
		require.Equal(t, "first", string(g.Record.Meta))
	})
	t.Run("a completion is unknown, and found", func(t *testing.T) {
		unknown(t, st.Complete(t.Context(), begun, store.Outcome{}))
		r := mustFind(t, direct, begun.ID)
		require.Equal(t, store.StateComplete, r.State)
		require.Equal(t, begun.Fence, r.Fence)
	})
	t.Run("the shortest timeout ends too", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := on(time.Millisecond).Reserve(ctx, claim("short"))
		unknown(t, err)
		require.ErrorContains(t, err, "0 replicas acknowledged within 1ms, want 1")
	})
	t.Run("a lost lease is lost", func(t *testing.T) {
		require.ErrorIs(t, st.Complete(t.Context(), begun, store.Outcome{}), store.ErrLost)
	})
	t.Run("the context's end is unknown too", func(t *testing.T) {
		for key, withDeadline := range map[string]bool{"canceled": false, "deadline": true} {
			ctx, cancel := context.WithCancel(t.Context())
			want := context.Canceled
			if withDeadline {
				ctx, cancel = context.WithTimeout(t.Context(), time.Second) // it must not end before the WAIT begins
				want = context.DeadlineExceeded
			} else {
				go func() {
					until(t, "the WAIT has begun", func() bool {
						_, err := direct.Find(t.Context(), claim(key).ID)
						return err == nil
					})
					cancel()
				}()
			}
			_, err := long.Reserve(ctx, claim(key))
			cancel()
			unknown(t, err)
			require.ErrorIs(t, err, want)
		}
	})
	t.Run("a call that writes nothing, or is lazy, is not held up", func(t *testing.T) {
		before := waited(t, primary.url())
		g, err := st.Reserve(t.Context(), claim("settled"))
		require.NoError(t, err)
		require.Equal(t, store.Complete, g.Verdict)
		require.Equal(t, "result", string(g.Record.Result))
		g, err = st.Reserve(t.Context(), claim("lazy"))
		require.NoError(t, err)
		require.Equal(t, store.InFlight, g.Verdict)
		require.NoError(t, st.Complete(t.Context(), lazy, store.Outcome{Lazy: true}))
		require.Equal(t, before, waited(t, primary.url()))
	})
}

func TestReplicasCostInRoundTrips(t *testing.T) {
	primary := privateEngine(t)
	privateReplica(t, primary)
	p := newProxy(t, primary.port)
	st := open(t, p.url(), redisstore.WithReplicas(1, patience))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var l store.Lease
	reserve := func(key string) func() {
		return func() {
			g, err := st.Reserve(ctx, claim(key))
			require.NoError(t, err)
			l = g.Lease
		}
	}
	complete := func() { require.NoError(t, st.Complete(ctx, l, store.Outcome{})) }
	reserve("warm")() // connects, and loads the scripts
	complete()
	require.Equal(t, 2, p.roundTrips(reserve("k")), "acquired: the script, then the WAIT")
	require.Equal(t, 1, p.roundTrips(complete), "the script and the WAIT together")
	require.Equal(t, 1, p.roundTrips(reserve("k")), "replayed: the script alone")
}

func TestReplicasOnADeadPrimary(t *testing.T) {
	primary := privateEngine(t)
	st := open(t, primary.url(), redisstore.WithReplicas(1, soon))
	primary.kill()
	until(t, "the server's end is noticed", func() bool {
		_, err := st.Reserve(t.Context(), claim("k"))
		require.Error(t, err)
		return !errors.Is(err, store.ErrUnknown)
	})
	_, err := st.Reserve(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, st.Complete(t.Context(), store.Lease{ID: claim("k").ID, Fence: 1}, store.Outcome{}),
		store.ErrUnavailable)
}

// The end of the caller's context may end the wait for the replicas. The claim is given up all the same.
func TestAClaimIsGivenUpAfterItsContextHasEnded(t *testing.T) {
	e := privateEngine(t)
	plain := open(t, e.url())
	st := open(t, e.url(), redisstore.WithReplicas(1, patience))
	for _, deadline := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		if deadline {
			// A context that ends before the script's response leaves the claim: the caller then looks for it with Find.
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		} else {
			go func() {
				until(t, "the WAIT has begun", func() bool { return e.info(t, "clients")["blocked_clients"] == "1" })
				cancel()
			}()
		}
		_, err := st.Reserve(ctx, claim("k"))
		cancel()
		require.ErrorIs(t, err, store.ErrUnknown)
		until(t, "the claim is given up", func() bool {
			_, err := plain.Find(t.Context(), claim("k").ID)
			return errors.Is(err, store.ErrNotFound)
		})
		require.NoError(t, plain.Release(t.Context(), acquire(t, plain, claim("k")).Lease))
	}
}

// A call whose context ends while it connects gives the connection back later. So does each call that has ended.
func TestAConnectionIsGivenBack(t *testing.T) {
	o, err := rueidis.ParseURL(privateEngine(t).url())
	require.NoError(t, err)
	var held atomic.Bool
	dialing, pass := make(chan struct{}), make(chan struct{})
	o.DialCtxFn = func(ctx context.Context, dst string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		if held.Load() {
			dialing <- struct{}{}
			<-pass
		}
		return d.DialContext(ctx, "tcp", dst)
	}
	o.DisableCache, o.BlockingPoolSize = true, 1
	cl, err := rueidis.NewClient(o)
	require.NoError(t, err)
	defer cl.Close()
	st, err := redisstore.New(t.Context(), cl, redisstore.WithReplicas(1, time.Millisecond))
	require.NoError(t, err)
	defer st.Close()

	held.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-dialing
		cancel()
	}()
	_, err = st.Reserve(ctx, claim("k"))
	require.Equal(t, context.Canceled, err)
	held.Store(false)
	close(pass)
	for range 2 { // there is one such connection
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := st.Reserve(ctx, claim("k"))
		cancel()
		require.ErrorContains(t, err, "0 replicas acknowledged")
	}
}

// Held settles a Reserve that returned ErrUnknown. A claim that was given up is not held, or its caller would work
// without a lease.
func TestATakeOverThatIsGivenUpIsNotHeld(t *testing.T) {
	e := privateEngine(t)
	plain := open(t, e.url())
	st := open(t, e.url(), redisstore.WithReplicas(1, time.Millisecond))
	for name, meta := range map[string][]byte{"no meta": nil, "an empty meta": {}, "a meta": []byte("first")} {
		c := claim(name)
		c.Lease, c.Owner, c.Meta = 0, "earlier", meta
		earlier := acquire(t, plain, c)
		c.Lease, c.Owner, c.Meta = time.Hour, "later", []byte("other")
		_, err := st.Reserve(t.Context(), c)
		require.ErrorIs(t, err, store.ErrUnknown)
		rec := mustFind(t, plain, c.ID)
		_, held := store.Held(rec, c)
		require.False(t, held, name)
		require.Greater(t, rec.Fence, earlier.Lease.Fence)
		require.Zero(t, rec.LeaseLeft())
		require.Equal(t, meta, rec.Meta, name)
	}
}
