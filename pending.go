package redo

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/journal"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// An Operation is a stored operation, as it was when it was read.
type Operation struct {
	// Name is the name given by [WithOperation].
	Name string
	// Key is its Idempotency-Key.
	Key string
	// State is pending, complete or failed.
	State store.State
	// Effect is its recorded effect.
	Effect Effect
	// Code is the failure that settled it or left it at rest. It is empty for a success, and while it can be sent again.
	Code taxonomy.Code
	// StatusCode is the recorded response's status, zero if there is none.
	StatusCode int
	// Method and URL are empty if the client stores no requests. The URL has no credentials.
	Method, URL string
	// Fingerprint identifies its payload.
	Fingerprint store.Fingerprint
	// CreatedAt is when it was first called, and Age how long ago that was, by the store's clock.
	CreatedAt time.Time
	Age       time.Duration
	// Resumable reports whether the store holds the whole request, except for credentials. Continue any other operation
	// by running the same code again.
	Resumable bool
	// Finding is the finding of a person or a probe, nil if there is none. Its Response is nil.
	Finding *Finding

	idle    time.Duration    // how long ago a pending one was last called, by this process's clock
	request *journal.Request // a pointer, so that no body shows where an Operation is printed
}

// Pending lists the operations that are neither complete nor failed, oldest first. A crashed process left them
// behind, they are under way, or they ended without a final response. A record that can't be read is yielded with its
// name and an error, and the listing goes on. An error that ends the listing is yielded last, with a zero Operation.
// The store must be a store.Lister. The loop's body may call the client.
func (c *Client) Pending(ctx context.Context) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) {
		if err := c.usesStore(); err != nil {
			yield(Operation{}, fmt.Errorf("redo: Pending: %w", err))
			return
		}
		for entry, err := range c.journal.Pending(ctx) {
			if !yield(operationOf(entry), err) {
				return
			}
		}
	}
}

// Find returns an operation in any state. The error matches store.ErrNotFound if there is none.
func (c *Client) Find(ctx context.Context, name string) (Operation, error) {
	rec, err := c.find(ctx, name)
	if err != nil {
		return Operation{}, fmt.Errorf("redo: Find %q: %w", name, err)
	}
	entry, err := journal.Read(rec)
	return operationOf(entry), err
}

// find returns the operation's record from the client's store.
func (c *Client) find(ctx context.Context, name string) (store.Record, error) {
	err := c.usesStore()
	if err == nil {
		err = journal.CheckName(name)
	}
	if err != nil {
		return store.Record{}, err
	}
	return c.store.Find(ctx, c.journal.ID(name))
}

// usesStore returns an error if the client is closed or has no store.
func (c *Client) usesStore() error {
	switch {
	case c.life.Err() != nil:
		return ErrClosed
	case c.store == nil:
		return errors.New("the client has no store: use WithStore")
	}
	return nil
}

// change reads the operation's record and calls f with it, until f does not return store.ErrLost: the record may change
// in between.
func (c *Client) change(ctx context.Context, method, name string, f func(store.Record) error) error {
	err := store.ErrLost
	for range maxClaims {
		var rec store.Record
		if rec, err = c.find(ctx, name); err == nil {
			err = f(rec)
		}
		if !errors.Is(err, store.ErrLost) {
			break
		}
		err = fmt.Errorf("%w: the record keeps changing", store.ErrUnavailable)
	}
	if err != nil {
		return fmt.Errorf("redo: %s %q: %w", method, name, err)
	}
	return nil
}

// operationOf returns the operation of a record that was read, in whole or in part.
func operationOf(entry journal.Entry) Operation {
	rec, req := entry.Record, entry.Request
	op := Operation{
		Name: rec.ID.Key, Key: req.Key, State: rec.State, Effect: entry.Effect(), Method: req.Method, URL: req.URL,
		Fingerprint: rec.Fingerprint, CreatedAt: rec.CreatedAt, Age: rec.Age(),
	}
	if req.Key != "" {
		op.request = &req
	}
	if rec.State == store.StatePending {
		op.idle = journal.Idle(rec, time.Now())
		op.Resumable = req.Rest == nil && req.Resumable(true) == nil
	}
	if s := entry.Settlement; s != nil {
		op.Code = s.Code
		if s.Finding != nil {
			op.Finding = &Finding{Effect: s.Effect, Evidence: s.Finding.Evidence, By: s.Finding.By}
		}
		if s.Response != nil {
			op.StatusCode = s.Response.Status
		}
	}
	return op
}

// Resume continues a pending operation that [Client.Pending] or [Client.Find] returned. It sends the stored request
// under the stored key, or fails, and returns the results of [Client.Do]. A success of [Call] must be a 2xx with JSON.
// Credentials are never stored: they come from [WithCredentials] or from the transport. Resume never makes a new key.
// If the operation was forgotten or settled as not applied, it sends nothing. Once another process calls it, it stops.
func (c *Client) Resume(ctx context.Context, op Operation) (*http.Response, error) {
	refuse := func(code taxonomy.Code, format string, args ...any) (*http.Response, error) {
		err := fmt.Errorf("redo: Resume: "+format, args...)
		return nil, c.refusal(ctx, &Error{Code: code, Operation: op.Name, Key: op.Key, Err: err})
	}
	switch {
	case ctx == nil:
		return refuse(taxonomy.InvalidRequest, "the context is nil")
	case c.store == nil:
		return refuse(taxonomy.InvalidOperation, "the client has no store: use WithStore")
	case op.request == nil:
		return refuse(taxonomy.InvalidOperation, "the operation is not one that Pending listed")
	}
	if err := op.request.Resumable(c.credentials != nil); err != nil {
		if errors.Is(err, journal.ErrNoCredentials) {
			return refuse(taxonomy.Auth+".credentials", "%w", err)
		}
		return refuse(taxonomy.BodyNotReplayable, "%w: run the same code again", err)
	}
	in := intentOf(ctx)
	in.name, in.named, in.match, in.key, in.hasKey = op.Name, true, nil, op.Key, true
	in.resumes, in.json = true, op.request.JSON
	req, err := op.request.HTTP(context.WithValue(ctx, intentKey{}, in))
	if err != nil {
		return refuse(taxonomy.InvalidRequest, "%w", err)
	}
	return c.Do(req)
}

// Forget removes an operation in any state, so that its next call starts anew with a new key. It is for an operation
// that redo could not settle and whose effect the caller knows; [Client.Settle] records the evidence instead. If an
// applied operation is forgotten and called again, it is applied twice. The error matches store.ErrNotFound if there
// is no such operation.
func (c *Client) Forget(ctx context.Context, name string) error {
	return c.change(ctx, "Forget", name, func(rec store.Record) error { return c.journal.Forget(ctx, rec) })
}
