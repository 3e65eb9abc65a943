package redisstore

import (
	"context"
	"fmt"
	"strconv"
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
	args := []string{id, string(c.Fingerprint[:]), s.layout.channel(), micros(c.Lease), retention(c.Retention)}
	if c.Meta != nil {
		args = append(args, string(c.Meta))
	}
	got := s.run(ctx, reserveScript, keys[:], args...)
	if err := got.Error(); err != nil {
		return store.Grant{}, writeFailed(ctx, err)
	}
	word, rec, err := readAnswer(got, c.ID)
	if err != nil {
		return store.Grant{}, err
	}
	g := store.Grant{Record: rec, Verdict: verdicts[word]}
	if g.Verdict == 0 {
		return store.Grant{}, malformed("the verdict %q", word)
	}
	if g.Verdict.Owned() {
		g.Lease = rec.Lease()
	}
	if g.Verdict == store.Acquired && c.Meta != nil {
		g.Record.Meta = append([]byte{}, c.Meta...) // not sent back
	}
	return g, nil
}

var verdicts = map[string]store.Verdict{}

func init() {
	for v := store.Acquired; v <= store.Mismatch; v++ {
		verdicts[v.String()] = v // the scripts use the same words
	}
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
	args := []string{micros(d)}
	if meta != nil {
		args = append(args, string(meta))
	}
	return s.move(ctx, extendScript, l, args...)
}

// Complete implements store.Store. A lazy outcome is written like any other. A result that is larger than WithMaxResult
// allows is refused with store.ErrInvalid.
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
	args := []string{s.layout.channel(), state, retention(o.Retention)}
	if o.Result != nil {
		args = append(args, string(o.Result))
	}
	return s.move(ctx, completeScript, l, args...)
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	return s.move(ctx, releaseScript, l, s.layout.channel())
}

// move runs a transition of a record that the lease must fit.
func (s *Store) move(ctx context.Context, sc script, l store.Lease, args ...string) error {
	keys, id := s.layout.record(l.ID)
	return settled(ctx, s.run(ctx, sc, keys[:], append([]string{id, fenceText(l.Fence)}, args...)...))
}

// Forget implements store.Forgetter.
func (s *Store) Forget(ctx context.Context, l store.Lease) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	keys, _ := s.layout.record(l.ID)
	return settled(ctx, s.run(ctx, forgetScript, keys[:1], fenceText(l.Fence)))
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
	return found(ctx, s.run(ctx, findScript, keys[:1]), id)
}

func found(ctx context.Context, got rueidis.RedisResult, id store.ID) (store.Record, error) {
	if err := got.Error(); err != nil {
		return store.Record{}, readFailed(ctx, err)
	}
	word, rec, err := readAnswer(got, id)
	switch {
	case err != nil:
		return store.Record{}, err
	case word == "absent":
		return store.Record{}, store.ErrNotFound
	}
	return rec, nil
}

func fenceText(fence uint64) string { return strconv.FormatUint(fence, 10) }

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
