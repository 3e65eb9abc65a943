package inbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// A blackout is an engine whose chosen calls fail until a time.
type blackout struct {
	*engine
	reserve, begin, complete, commit time.Time
	extend, reply                    time.Time // reply: of a Reserve that owns the record
}

func until(t time.Time) error {
	if time.Now().Before(t) {
		return errDown
	}
	return nil
}

func (b *blackout) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := until(b.reserve); err != nil {
		return store.Grant{}, err
	}
	g, err := b.engine.Reserve(ctx, c)
	if g.Verdict.Owned() && until(b.reply) != nil {
		return store.Grant{}, store.ErrUnknown
	}
	return g, err
}

func (b *blackout) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if err := until(b.extend); err != nil {
		return err
	}
	return b.engine.Extend(ctx, l, d, meta)
}

func (b *blackout) Begin(ctx context.Context, c store.Claim) (store.Tx[rows], store.Grant, error) {
	if err := until(b.begin); err != nil {
		return nil, store.Grant{}, err
	}
	b.refuse = until(b.commit)
	return b.engine.Begin(ctx, c)
}

func (b *blackout) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := until(b.complete); err != nil {
		return err
	}
	return b.engine.Complete(ctx, l, o)
}

// The queue is up, and the inbox's store is down for an hour. The queue makes three attempts.
func TestAnOutageBeforeTheHandlerRunsUsesUpNoAttempts(t *testing.T) {
	for _, c := range []struct {
		name          string
		transactional bool
		fails         func(b *blackout, until time.Time)
		errs          []error // of the handler
		handled       int     // times
		dead          bool
	}{
		{"no claim", false, func(b *blackout, end time.Time) { b.reserve = end }, nil, 1, false},
		{"no claim for a transaction", true, func(b *blackout, end time.Time) { b.reserve = end }, nil, 1, false},
		{"no transaction", true, func(b *blackout, end time.Time) { b.begin = end }, nil, 1, false},
		{
			"and then a handler that fails each time", false, func(b *blackout, end time.Time) { b.reserve = end },
			[]error{errHandler, errHandler, errHandler}, 3, true,
		},
		{"no reply to a claim", false, func(b *blackout, end time.Time) { b.reply = end }, nil, 1, false},
		{
			"no record of a failure, and no count", false, func(b *blackout, end time.Time) { b.extend = end },
			[]error{errHandler}, 2, false,
		},
		{"no record of a success", false, func(b *blackout, end time.Time) { b.complete = end }, nil, 3, true},
		{"no commit", true, func(b *blackout, end time.Time) { b.commit = end }, nil, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, mem *memstore.Store) {
				st := &blackout{engine: newEngine(mem)}
				c.fails(st, time.Now().Add(time.Hour))
				a := &acceptance{queue: memoutbox.New(), h: scripted{errs: c.errs}}
				receiver := newInbox(t, st).Receiver(a.h.handle)
				if c.transactional {
					in, err := inbox.NewTransactional(st)
					require.NoError(t, err)
					receiver = in.Receiver(func(ctx context.Context, _ rows, ev inbox.Event) error {
						return a.h.handle(ctx, ev)
					})
				}
				var err error
				a.Acceptor, err = inbox.Accept(a.queue, receiver, outbox.Retry(3*second, 3*second))
				require.NoError(t, err)
				a.accept(t, event, inbox.Accepted)
				a.work(t, 2*time.Hour)
				require.Len(t, a.h.events, c.handled)
				stats, err := a.queue.Stats(t.Context())
				require.NoError(t, err)
				require.Zero(t, stats.Waiting)
				require.Equal(t, c.dead, stats.Dead == 1)
			})
		})
	}
}
