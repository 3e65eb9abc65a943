package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// A Workload is the work of one process on a store.
type Workload struct {
	Path    string
	Session string // begins the process's keys
	Seed    uint64
	Workers int       // 0: one, which commits only transactions
	Rounds  int       // operations of each worker
	Plain   bool      // no outcome is lazy and no record is removed, so that each commit shows
	NoSync  bool      // a defect: for two commits bbolt syncs nothing
	Print   io.Writer `json:"-"`
}

// A process is a running Workload.
type process struct {
	Workload
	store *boltstore.Store
	queue *boltoutbox.Queue
	mu    sync.Mutex
	err   error // of printing
}

// effects is the application's bucket. It has an entry for each transaction that was committed.
var effects = []byte("effects")

const destination = "https://shop.example/webhooks"

// Run opens the store, takes over the records that are pending, runs the operations and closes the store. It prints
// an Event before and after each call. It returns an error if an Event can't be printed, or if a call fails with an
// error that the contract does not allow.
func (w Workload) Run(ctx context.Context) error {
	p := &process{Workload: w}
	if err := p.open(ctx); err != nil {
		return errors.Join(err, p.err)
	}
	var group sync.WaitGroup
	errs := make([]error, w.Workers)
	for i := range w.Workers {
		group.Go(func() { errs[i] = p.work(ctx, i) })
	}
	group.Wait()
	err := errors.Join(errs...)
	if w.Workers == 0 {
		err = p.workAlone(ctx)
	}
	p.print(Event{Stage: Begun, Op: "close"})
	p.print(Event{Stage: stageOf(p.store.Close()), Op: "close"})
	return errors.Join(err, p.err)
}

func (p *process) work(ctx context.Context, worker int) (err error) {
	r := rand.New(rand.NewPCG(p.Seed, uint64(worker)))
	for n := 0; n < p.Rounds && err == nil; n++ {
		if p.NoSync && worker == 0 && n == p.Rounds/2 {
			err = p.unsynced(ctx)
		}
		err = errors.Join(err, p.operate(ctx, fmt.Sprintf("%s-%d-%d", p.Session, worker, n), r))
	}
	return err
}

// workAlone commits transactions in its caller's goroutine. If that is locked to a thread, each of its syncs has a
// fixed number in this thread.
func (p *process) workAlone(ctx context.Context) (err error) {
	for n := 0; n < p.Rounds && err == nil; n++ {
		key := fmt.Sprintf("%s-%d", p.Session, n)
		if failed := p.transact(ctx, key, store.Outcome{Result: []byte(key)}, false); stageOf(failed) == "wrong" {
			err = failed
		}
	}
	return err
}

// open opens the store and looks at the records of the sessions before.
func (p *process) open(ctx context.Context) (err error) {
	p.print(Event{Stage: Begun, Op: "open"})
	p.store, err = boltstore.Open(p.Path, boltstore.WithLazyDelay(time.Millisecond))
	p.print(Event{Stage: stageOf(err), Op: "open", Error: fmt.Sprint(err)})
	if err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	p.queue, err = boltoutbox.New(ctx, p.store)
	p.print(Event{Stage: stageOf(err), Op: "queue", Error: fmt.Sprint(err)})
	if err != nil {
		return errors.Join(fmt.Errorf("opening the queue: %w", err), p.store.Close())
	}
	seen, err := survey(ctx, p.store, p.queue, slices.Values([]string(nil)))
	if err != nil {
		return err
	}
	for key, f := range seen {
		p.print(Event{Stage: Done, Op: "find", Key: key, Found: f})
	}
	p.print(Event{Stage: Done, Op: "found all"})
	for key, f := range seen {
		if f.State == store.StatePending {
			_ = p.settle(ctx, key, store.Outcome{Result: []byte("taken over " + key)})
		}
	}
	return nil
}

func (p *process) print(e Event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = p.Print.Write(append(line, '\n')) // one system call
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = errors.Join(p.err, err)
	}
}

func stageOf(err error) Stage {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, store.ErrUnknown):
		return Unknown
	case errors.Is(err, store.ErrUnavailable):
		return Refused
	}
	return "wrong"
}

// call prints the events of a change around it. f returns the record after it.
func (p *process) call(op, key string, e Event, f func() (Fact, error)) (Fact, error) {
	e.Stage, e.Op, e.Key = Begun, op, key
	p.print(e)
	found, err := f()
	e.Stage, e.Found = stageOf(err), found
	if err != nil {
		e.Error = err.Error()
	}
	p.print(e)
	if e.Stage == "wrong" {
		return found, fmt.Errorf("%s of %q: %w", op, key, err)
	}
	return found, err
}

// operate runs one operation of a random kind. The contract's errors end the operation and are not returned.
func (p *process) operate(ctx context.Context, key string, r *rand.Rand) error {
	size := []int{0, 20, 700, 6000, 20_000}[r.IntN(5)]
	out := store.Outcome{Result: []byte(strings.Repeat(key+" ", size/len(key)+1))}
	var err error
	kind := r.IntN(10)
	if p.Plain && (kind == 5 || kind == 6) {
		kind = 7
	}
	switch kind {
	case 0, 1:
		err = p.settle(ctx, key, out)
	case 2:
		out.Lazy = !p.Plain
		err = p.settle(ctx, key, out)
	case 3:
		out.Failed = true
		err = p.settle(ctx, key, out)
	case 4:
		err = p.leave(ctx, key)
	case 5, 6:
		err = p.undo(ctx, key, out, kind == 5)
	case 7, 8, 9:
		err = p.transact(ctx, key, out, kind == 9)
	}
	if stageOf(err) == "wrong" {
		return err
	}
	return nil
}

func claimOf(key string) store.Claim {
	return store.Claim{
		ID:          store.ID{Scope: "scope", Key: key},
		Fingerprint: store.Raw("POST", "/refunds", "", []byte(key)),
		Lease:       time.Hour,
		Retention:   24 * time.Hour,
		Meta:        []byte("meta of " + key),
	}
}

func (p *process) reserve(ctx context.Context, key string, lazy bool) (f Fact, l store.Lease, err error) {
	c := claimOf(key)
	c.Lazy = lazy
	begun := Event{Found: Fact{State: store.StatePending, Meta: string(c.Meta), Taken: true}, Lazy: lazy}
	f, err = p.call("reserve", key, begun,
		func() (Fact, error) {
			g, err := p.store.Reserve(ctx, c)
			if err != nil {
				return Fact{}, err
			}
			l = g.Lease
			if !g.Verdict.Owned() {
				err = fmt.Errorf("the verdict is %v", g.Verdict)
			}
			return factOf(g.Record), err
		})
	return f, l, err
}

// settle reserves and completes. A lazy outcome has a lazy claim.
func (p *process) settle(ctx context.Context, key string, o store.Outcome) error {
	f, l, err := p.reserve(ctx, key, o.Lazy)
	if err != nil {
		return err
	}
	return p.complete(ctx, key, f, l, o)
}

func (p *process) complete(ctx context.Context, key string, f Fact, l store.Lease, o store.Outcome) error {
	f = settled(f, o)
	_, err := p.call("complete", key, Event{Found: f, Lazy: o.Lazy}, func() (Fact, error) {
		return f, p.store.Complete(ctx, l, o)
	})
	return err
}

func settled(f Fact, o store.Outcome) Fact {
	f.State, f.Result = store.StateComplete, string(o.Result)
	if o.Failed {
		f.State = store.StateFailed
	}
	return f
}

// leave extends the lease with another meta, and leaves the record pending.
func (p *process) leave(ctx context.Context, key string) error {
	f, l, err := p.reserve(ctx, key, !p.Plain)
	if err != nil {
		return err
	}
	f.Meta = "another meta of " + key
	_, err = p.call("extend", key, Event{Found: f}, func() (Fact, error) {
		return f, p.store.Extend(ctx, l, time.Hour, []byte(f.Meta))
	})
	return err
}

// undo releases the record, or completes and forgets it.
func (p *process) undo(ctx context.Context, key string, o store.Outcome, release bool) error {
	f, l, err := p.reserve(ctx, key, false)
	if err != nil {
		return err
	}
	remove := p.store.Release
	if !release {
		if err := p.complete(ctx, key, f, l, o); err != nil {
			return err
		}
		remove = p.store.Forget
	}
	_, err = p.call("remove", key, Event{}, func() (Fact, error) { return Fact{}, remove(ctx, l) })
	return err
}

// transact commits an effect, an event and the record together, or rolls them back.
func (p *process) transact(ctx context.Context, key string, o store.Outcome, rollback bool) error {
	tx, g, err := p.store.Begin(ctx, claimOf(key))
	if err != nil {
		return err
	}
	if tx == nil {
		return fmt.Errorf("begin of %q: the verdict is %v", key, g.Verdict)
	}
	p.print(Event{Stage: Done, Op: "begin", Found: Fact{Fence: g.Lease.Fence}})
	b, err := tx.Tx().CreateBucketIfNotExists(effects)
	if err == nil {
		err = b.Put([]byte(key), nil)
	}
	if err == nil {
		_, err = p.queue.Enqueue(ctx, tx.Tx(), outbox.Event{ID: key, Destination: destination, Payload: o.Result})
	}
	if err != nil || rollback {
		return errors.Join(err, tx.Rollback(ctx))
	}
	f := settled(factOf(g.Record), o)
	f.Effect = true
	_, err = p.call(transactional, key, Event{Found: f}, func() (Fact, error) { return f, tx.Commit(ctx, o) })
	return err
}

// unsynced is the defect NoSync: two commits without a sync, and an acknowledgement after each.
func (p *process) unsynced(ctx context.Context) error {
	set := func(off bool) error {
		return p.store.Update(ctx, func(tx *boltstore.Tx) error {
			b, err := tx.CreateBucketIfNotExists(effects)
			if err == nil {
				b.Tx().DB().NoSync = off
			}
			return err
		})
	}
	if err := set(true); err != nil {
		return err
	}
	_, _, err := p.reserve(ctx, p.Session+"-unsynced", false)
	return errors.Join(err, set(false))
}
