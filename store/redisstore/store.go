package redisstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

var _ store.Engine = (*Store)(nil)

// A Store keeps records in Redis or Valkey. Create one with Open or New. All methods may be called concurrently. Any
// number of Stores, in any number of processes, may share a server and a prefix.
type Store struct {
	config
	client rueidis.Client
	layout atomic.Pointer[layout]
	owned  func() // closes the client, nil if the caller made it

	poller    *store.Poller
	listening sync.Once // begins the listener
	listener  sync.WaitGroup
	closing   sync.Once
	life      context.Context // ends with Close
	end       context.CancelFunc
}

// Reserve implements store.Store. It is one round trip, also if it returns a result. A Reserve that creates a record
// frees two expired records on average: one creation in eight removes the index entries of up to sixteen. The engine
// deletes the records themselves.
func (s *Store) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := cmp.Or(s.ready(ctx), c.Validate()); err != nil {
		return store.Grant{}, err
	}
	return inLayout(ctx, s, func() (store.Grant, error) { return s.reserve(ctx, c) })
}

// inLayout calls f, and again after the store has joined another layout.
func inLayout[T any](ctx context.Context, s *Store, f func() (T, error)) (T, error) {
	t, err := f()
	if errors.Is(err, errLayout) {
		if err = s.join(ctx, true); err == nil {
			t, err = f()
		}
	}
	return t, err
}

func (s *Store) reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	l := s.layout.Load()
	keys := l.record(c.ID)
	lease, retention, random, fields := claimArgs(c)
	args := [...]string{lease, retention, random, fields, l.mark}
	if s.replicas > 0 {
		return s.reserveReplicated(ctx, c, keys[:], args[:])
	}
	return readGrant(ctx, s.run(ctx, reserveScript, keys[:], args[:]), c)
}

// readGrant reads the reply of reserve.lua. About a new record it is the head alone, and it is a pair about an
// existing one.
func readGrant(ctx context.Context, got rueidis.RedisResult, c store.Claim) (store.Grant, error) {
	reply, err := got.ToMessage()
	if err != nil {
		return store.Grant{}, at(c.ID, writeFailed(ctx, err))
	}
	if reply.IsString() {
		return acquired(reply, c)
	}
	letter, rec, err := readReply(reply, c.ID)
	if err != nil {
		return store.Grant{}, at(c.ID, err)
	}
	g := store.Grant{Record: rec, Verdict: verdicts[letter]}
	if g.Verdict == store.TakenOver {
		g.Lease = rec.Lease()
	}
	return g, nil
}

// verdicts are the letters of reserve.lua for an existing record. A settled record's letter is its state.
var verdicts = map[byte]store.Verdict{
	't': store.TakenOver, 'i': store.InFlight, 'c': store.Complete, 'f': store.Failed, 'm': store.Mismatch,
}

func acquired(reply rueidis.RedisMessage, c store.Claim) (store.Grant, error) {
	head, _ := reply.ToString()
	if len(head) != fingerprintAt {
		return store.Grant{}, malformed("a new record's head of %d bytes", len(head))
	}
	f := fields{text: head}
	rec := store.Record{ID: c.ID, Fingerprint: c.Fingerprint, Owner: c.Owner, Meta: bytes.Clone(c.Meta)}
	f.head(&rec)
	rec.ReadAt = rec.CreatedAt
	return store.Grant{Verdict: store.Acquired, Lease: rec.Lease(), Record: rec}, f.err()
}

// Extend implements store.Store. A negative d and store.Forever are refused with store.ErrInvalid.
func (s *Store) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if err := cmp.Or(s.ready(ctx), l.ValidateExtend(d, meta)); err != nil {
		return err
	}
	keys := s.layout.Load().record(l.ID)
	args := []string{fenceText(l.Fence), microsText(d)}
	if meta != nil {
		args = append(args, string(appendMetaLength(nil, meta)), string(meta))
	}
	return settled(ctx, l.ID, s.run(ctx, extendScript, keys[:], args))
}

// Complete implements store.Store. A lazy outcome is written like any other, but does not wait for replicas. A result
// that is larger than WithMaxResult allows is refused with store.ErrInvalid.
func (s *Store) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := cmp.Or(s.ready(ctx), o.ValidateUpTo(s.maxResult)); err != nil {
		return err
	}
	keys := s.layout.Load().record(l.ID)
	all := [...]string{fenceText(l.Fence), settledLeads[[2]bool{o.Failed, o.Result != nil}], string(o.Result), ""}
	args := all[:3]
	if o.Retention != 0 {
		all[3] = microsText(o.Retention)
		args = all[:]
	}
	if s.replicas > 0 && !o.Lazy {
		return s.completeReplicated(ctx, l.ID, keys[:], args)
	}
	return settled(ctx, l.ID, s.run(ctx, completeScript, keys[:], args))
}

// settledLeads are the first bytes of a settled record. They depend on whether it failed and whether it has a result.
var settledLeads = map[[2]bool]string{
	{false, false}: format + "c-", {false, true}: format + "c+",
	{true, false}: format + "f-", {true, true}: format + "f+",
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	return s.move(ctx, releaseScript, l)
}

// Forget implements store.Forgetter.
func (s *Store) Forget(ctx context.Context, l store.Lease) error {
	return s.move(ctx, forgetScript, l)
}

// move runs a script whose only argument is the fence.
func (s *Store) move(ctx context.Context, sc script, l store.Lease) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	keys := s.layout.Load().record(l.ID)
	return settled(ctx, l.ID, s.run(ctx, sc, keys[:], []string{fenceText(l.Fence)}))
}

// Drop implements store.Dropper. It is one script. A key that holds no string, or a string that is no record, is
// damaged. A record of another format is not damaged, and stays. Drop does not wait for replicas.
func (s *Store) Drop(ctx context.Context, id store.ID) error {
	if err := cmp.Or(s.ready(ctx), id.Validate()); err != nil {
		return err
	}
	_, err := inLayout(ctx, s, func() (struct{}, error) {
		l := s.layout.Load()
		keys := l.record(id)
		return struct{}{}, settled(ctx, id, s.run(ctx, dropScript, keys[:], []string{l.mark}))
	})
	return err
}

// settled reads the reply of a script that returns one word.
func settled(ctx context.Context, id store.ID, r rueidis.RedisResult) error {
	word, err := r.ToString()
	switch {
	case err != nil:
		return at(id, writeFailed(ctx, err))
	case word == "ok":
		return nil
	case word == "lost":
		return store.ErrLost
	case word == "absent":
		return store.ErrNotFound
	case word == "sound":
		return fmt.Errorf("redisstore: %w: the record of %v is not damaged", store.ErrInvalid, id)
	}
	return malformed("the reply %q", word)
}

// Find implements store.Store. An ID outside its limits is refused with store.ErrInvalid. Find reads from the primary,
// and is unavailable on a replica, which may not have the record yet.
func (s *Store) Find(ctx context.Context, id store.ID) (store.Record, error) {
	return s.find(ctx, id)
}

func (s *Store) find(ctx context.Context, id store.ID, args ...string) (store.Record, error) {
	if err := cmp.Or(s.ready(ctx), id.Validate()); err != nil {
		return store.Record{}, err
	}
	return inLayout(ctx, s, func() (store.Record, error) {
		l := s.layout.Load()
		keys := l.record(id)
		return found(ctx, s.run(ctx, findScript, keys[:], append([]string{l.mark}, args...)), id)
	})
}

// found reads the reply of find.lua.
func found(ctx context.Context, got rueidis.RedisResult, id store.ID) (store.Record, error) {
	reply, err := got.ToMessage()
	switch {
	case rueidis.IsRedisNil(err):
		return store.Record{}, store.ErrNotFound
	case err != nil:
		return store.Record{}, at(id, readFailed(ctx, err))
	}
	_, rec, err := readReply(reply, id)
	return rec, at(id, err)
}

// ready returns an error if a call can't begin.
func (s *Store) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.life.Err() != nil {
		return errClosed
	}
	return nil
}
