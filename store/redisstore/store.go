package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// Interfaces that a Store implements.
var (
	_ store.Store     = (*Store)(nil)
	_ store.Waiter    = (*Store)(nil)
	_ store.Checker   = (*Store)(nil)
	_ store.Lister    = (*Store)(nil)
	_ store.Forgetter = (*Store)(nil)
	_ store.Dropper   = (*Store)(nil)
)

// A Store keeps records in Redis or Valkey. Create one with Open or New. All methods may be called concurrently, and
// any number of Stores, in any number of processes, may share a server and a prefix.
type Store struct {
	config
	client Client
	layout *layout
	owned  func() // closes the client when it is the Store's own
	waits  waits
	closed chan struct{}
}

// Reserve implements store.Store. It is one round trip, a replayed result included.
func (s *Store) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := s.ready(ctx); err != nil {
		return store.Grant{}, err
	}
	if err := c.Validate(); err != nil {
		return store.Grant{}, err
	}
	keys, id := s.layout.record(c.ID)
	var room [wordsRoom]byte
	w := words{text: room[:0]}.bytes(c.Fingerprint[:]).micros(c.Lease).retention(c.Retention).chance().metaLength(c.Meta).cut()
	args := [...]string{id, w[0], s.layout.channel, w[1], w[2], w[3], w[4], string(c.Meta)}
	if s.replicas > 0 {
		return s.reserveReplicated(ctx, c, keys, args[:])
	}
	return readGrant(ctx, s.run(ctx, reserveScript, keys[:], args[:]), c)
}

// readGrant reads what Reserve's script answers.
func readGrant(ctx context.Context, got rueidis.RedisResult, c store.Claim) (store.Grant, error) {
	if err := got.Error(); err != nil {
		return store.Grant{}, at(c.ID, writeFailed(ctx, err))
	}
	letter, rec, err := readAnswer(got, c.ID)
	if err != nil {
		return store.Grant{}, err
	}
	g := store.Grant{Record: rec, Verdict: verdicts[letter]}
	if g.Verdict == 0 {
		return store.Grant{}, malformed("the verdict %q", letter)
	}
	if g.Verdict.Owned() {
		g.Lease = rec.Lease()
	}
	if g.Verdict == store.Acquired && c.Meta != nil {
		g.Record.Meta = append([]byte{}, c.Meta...) // not sent back
	}
	return g, nil
}

// verdicts are the letters of Reserve's script.
var verdicts = [256]store.Verdict{
	letterAcquired: store.Acquired, 't': store.TakenOver, 'i': store.InFlight, 'c': store.Complete, 'f': store.Failed, 'm': store.Mismatch,
}

// Extend implements store.Store. A negative d and store.Forever are refused with store.ErrInvalid.
func (s *Store) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	// The rules for a claim's lease and meta are the rules here.
	if err := (store.Claim{ID: l.ID, Lease: d, Retention: store.Forever, Meta: meta}).Validate(); err != nil {
		return err
	}
	var room [wordsRoom]byte
	w := words{text: room[:0]}.fence(l.Fence).micros(d).metaLength(meta).cut()
	keys, id := s.layout.record(l.ID)
	args := [...]string{id, w[0], w[1], w[2], string(meta)}
	if meta == nil {
		return settled(ctx, s.run(ctx, extendScript, keys[:], args[:3]))
	}
	return settled(ctx, s.run(ctx, extendScript, keys[:], args[:]))
}

// Complete implements store.Store. A lazy outcome is written like any other, but is not waited for on replicas. A
// result that is larger than WithMaxResult allows is refused with store.ErrInvalid.
func (s *Store) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return err
	}
	if len(o.Result) > s.maxResult {
		return fmt.Errorf("redisstore: %w: the result has %d bytes, at most %d are allowed", store.ErrInvalid, len(o.Result), s.maxResult)
	}
	state := "c"
	if o.Failed {
		state = "f"
	}
	var room [wordsRoom]byte
	w := words{text: room[:0]}.fence(l.Fence).retention(o.Retention).cut()
	keys, id := s.layout.record(l.ID)
	all := [...]string{id, w[0], s.layout.channel, state, w[1], string(o.Result)}
	args := all[:]
	if o.Result == nil {
		args = all[:len(all)-1]
	}
	if s.replicas > 0 && !o.Lazy {
		return s.completeReplicated(ctx, keys, args)
	}
	return settled(ctx, s.run(ctx, completeScript, keys[:], args))
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	keys, id := s.layout.record(l.ID)
	return settled(ctx, s.run(ctx, releaseScript, keys[:], []string{id, fenceText(l.Fence), s.layout.channel}))
}

// Forget implements store.Forgetter.
func (s *Store) Forget(ctx context.Context, l store.Lease) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	keys, _ := s.layout.record(l.ID)
	return settled(ctx, s.run(ctx, forgetScript, keys[:1], []string{fenceText(l.Fence)}))
}

// settled reads the answer of a script that says "ok" or "lost".
func settled(ctx context.Context, r rueidis.RedisResult) error {
	word, err := r.ToString()
	switch {
	case err != nil:
		return writeFailed(ctx, err)
	case word == "ok":
		return nil
	case word == "lost":
		return store.ErrLost
	}
	return malformed("the answer %q", word)
}

// Find implements store.Store. An ID outside its limits is refused with store.ErrInvalid. The primary is asked, never a
// replica.
func (s *Store) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if err := s.ready(ctx); err != nil {
		return store.Record{}, err
	}
	if err := id.Validate(); err != nil {
		return store.Record{}, err
	}
	keys, _ := s.layout.record(id)
	return found(ctx, s.run(ctx, findScript, keys[:1], nil), id)
}

func found(ctx context.Context, got rueidis.RedisResult, id store.ID) (store.Record, error) {
	if err := got.Error(); err != nil {
		return store.Record{}, at(id, readFailed(ctx, err))
	}
	letter, rec, err := readAnswer(got, id)
	switch {
	case err != nil:
		return store.Record{}, at(id, err)
	case letter == letterAbsent:
		return store.Record{}, store.ErrNotFound
	}
	return rec, nil
}

// ready returns why a call can't begin.
func (s *Store) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.closed:
		return errClosed
	default:
		return nil
	}
}
