package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
)

// A book is a store.TxStore in memory. Its transactions write lines, which the faults beneath it can keep from
// being committed. The record of an open transaction is in the memstore already, where no other caller sees it.
type book struct {
	*faults
	mu    sync.Mutex
	lines []string
	open  map[store.ID]*entry
}

// An entry is a transaction of a book.
type entry struct {
	b       *book
	claim   store.Claim
	grant   store.Grant
	before  *store.Record // the record that was taken over
	written []string
	ended   string // by which method
	// endedByUser is true after End, refused after the pen's Rollback.
	endedByUser, refused bool
	over                 chan struct{}
}

// A pen is the user's view of a book's transaction.
type pen struct{ e *entry }

// End commits or rolls back behind the store's back, as an SQL text can.
func (p *pen) End(commit bool) {
	p.e.b.mu.Lock()
	defer p.e.b.mu.Unlock()
	if commit {
		p.e.b.lines = append(p.e.b.lines, p.e.written...)
	}
	p.e.written, p.e.endedByUser = nil, true
}

// Rollback is refused, and makes the commit fail.
func (p *pen) Rollback() error {
	p.e.refused = true
	return store.ErrTxEnded
}

// Write adds a line, as long as the transaction is open.
func (p *pen) Write(line string) {
	if p.e.ended != "" {
		panic("written after " + p.e.ended)
	}
	p.e.written = append(p.e.written, line)
}

func newBook(on func(method string, nth int, do func() error) error) *book {
	return &book{faults: newFaults(on), open: map[store.ID]*entry{}}
}

func (b *book) committed() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lines)
}

// idle checks that no transaction was left open.
func (b *book) idle(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.open, "a transaction is open")
}

// Begin implements store.TxStore.
func (b *book) Begin(ctx context.Context, c store.Claim) (tx store.Tx[*pen], g store.Grant, err error) {
	err = b.call("Begin", func() error {
		tx, g, err = b.begin(ctx, c)
		return err
	})
	if err != nil {
		return nil, store.Grant{}, err
	}
	return tx, g, nil
}

func (b *book) begin(ctx context.Context, c store.Claim) (store.Tx[*pen], store.Grant, error) {
	if err := errors.Join(ctx.Err(), c.Validate()); err != nil {
		return nil, store.Grant{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if other, ok := b.open[c.ID]; ok {
		g := store.Grant{Verdict: store.InFlight, Record: store.Record{ID: c.ID, State: store.StatePending}}
		if other.claim.Fingerprint != c.Fingerprint {
			g.Verdict = store.Mismatch
		}
		return nil, g, nil
	}
	e := &entry{b: b, claim: c, over: make(chan struct{})}
	if rec, err := b.Store.Find(ctx, c.ID); err == nil {
		e.before = &rec
	}
	c.Lease, c.Meta = time.Hour, nil
	g, err := b.Store.Reserve(ctx, c)
	if err != nil || !g.Verdict.Owned() {
		return nil, g, err
	}
	g.Record.LeaseUntil = time.Time{}
	e.grant = g
	b.open[c.ID] = e
	return e, g, nil
}

// Find implements store.Store: it does not see uncommitted records.
func (b *book) Find(ctx context.Context, id store.ID) (rec store.Record, err error) {
	err = b.call("Find", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if e, ok := b.open[id]; ok {
			if e.before == nil {
				return store.ErrNotFound
			}
			rec = *e.before
			return nil
		}
		rec, err = b.Store.Find(ctx, id)
		return err
	})
	return rec, err
}

// Tx implements store.Tx.
func (e *entry) Tx() *pen { return &pen{e} }

// Commit implements store.Tx.
func (e *entry) Commit(ctx context.Context, o store.Outcome) error { return e.settle(ctx, "Commit", o) }

// Discard implements store.Tx.
func (e *entry) Discard(ctx context.Context, o store.Outcome) error {
	e.written = nil
	return e.settle(ctx, "Discard", o)
}

// settle makes the write, unless a fault keeps it from being made: then all of it is undone.
func (e *entry) settle(ctx context.Context, method string, o store.Outcome) error {
	if e.ended != "" {
		panic(method + " after " + e.ended)
	}
	e.ended = method
	if e.endedByUser {
		return e.b.call(method, func() error { return e.unknown(ctx) })
	}
	made := false
	err := e.b.call(method, func() error {
		if err := errors.Join(ctx.Err(), o.Validate()); err != nil {
			return err
		}
		if e.refused {
			return store.ErrTxEnded
		}
		made = true
		e.b.mu.Lock()
		defer e.b.mu.Unlock()
		e.b.lines = append(e.b.lines, e.written...)
		defer e.leave()
		return e.b.Store.Complete(context.WithoutCancel(ctx), e.grant.Lease, o)
	})
	if !made {
		e.undo(ctx)
	}
	return err
}

// Rollback implements store.Tx.
func (e *entry) Rollback(ctx context.Context) error {
	if e.ended != "" {
		return nil
	}
	e.ended = "Rollback"
	if e.endedByUser {
		return e.b.call("Rollback", func() error { return e.unknown(ctx) })
	}
	e.undo(ctx)
	return e.b.call("Rollback", ctx.Err)
}

// unknown settles the record of a transaction that its user has ended, under a new fence.
func (e *entry) unknown(ctx context.Context) error {
	e.undo(ctx)
	c := e.claim
	c.Lease, c.Meta = 0, nil
	g, err := e.b.Store.Reserve(ctx, c)
	if err == nil {
		err = e.b.Store.Complete(ctx, g.Lease, store.UnknownOutcome())
	}
	return errors.Join(store.ErrTxEnded, store.ErrUnknown, err)
}

func (e *entry) undo(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	defer e.leave()
	end := e.b.Store.Release
	if e.before != nil && e.before.State == store.StatePending {
		end = func(ctx context.Context, l store.Lease) error { return e.b.Store.Extend(ctx, l, 0, nil) }
	}
	if err := end(ctx, e.grant.Lease); err != nil {
		panic(err)
	}
}

// leave makes room for the next transaction. The mutex is held.
func (e *entry) leave() {
	delete(e.b.open, e.claim.ID)
	close(e.over)
}

// newBookRig serves run in transactions of b.
func newBookRig(t *testing.T, b interface {
	store.Store
	idle(*testing.T)
}, run http.HandlerFunc, opts ...server.Option) *rig {
	t.Helper()
	t.Cleanup(func() { b.idle(t) })
	return newRig(t, b, run, append(opts, server.Transactional[*pen]())...)
}

// writing makes a handler that writes a line and then runs next.
func writing(line string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		tx, ok := server.Tx[*pen](r.Context())
		if !ok {
			panic("no transaction")
		}
		tx.Write(line)
		next(w, r)
	}
}

var refundID = store.ID{Scope: "13:/refunds/{id}", Key: "k1"}

// dies leaves a two-step record behind, of a request whose owner died before it recorded an outcome, with its note.
func dies(t *testing.T, b *book, note string) {
	t.Helper()
	st := newFaultsOver(b.Store)
	st.on = failing("Complete", store.ErrUnavailable)
	dead := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, server.Checkpoint(r.Context(), []byte(note)))
		_, _ = io.WriteString(w, "lost")
	})
	requireProblem(t, dead.do(), 503, "DEPENDENCY.unavailable")
	dead.shutdown()
	time.Sleep(server.DefaultLeaseTTL)
}
