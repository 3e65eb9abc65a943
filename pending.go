package redo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/wire"
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

	request *storedRequest // a pointer, so that no body shows where an Operation is printed
}

// Pending lists the operations that are neither complete nor failed, oldest first. A crashed process left them
// behind, they are under way, or they ended without a final response. A record that can't be read is yielded with its
// name and an error, and the listing goes on. An error that ends the listing is yielded last, with a zero Operation.
// The store must be a store.Lister. The loop's body may call the client.
func (c *Client) Pending(ctx context.Context) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) {
		lister, ok := c.store.(store.Lister)
		switch {
		case c.closed.Load():
			yield(Operation{}, ErrClosed)
			return
		case c.store == nil:
			yield(Operation{}, errors.New("redo: Pending: the client has no store: use WithStore"))
			return
		case !ok:
			yield(Operation{}, fmt.Errorf("redo: Pending: %T can't list pending operations: it is no store.Lister", c.store))
			return
		}
		for rec, err := range lister.Pending(ctx, c.scope) {
			op := Operation{Name: rec.ID.Key}
			switch {
			case err == nil:
				op, err = c.operationOf(rec)
			case op.Name != "":
				err = fmt.Errorf("redo: operation %q: %w", op.Name, err)
			default:
				err = fmt.Errorf("redo: listing pending operations: %w", err)
			}
			if !yield(op, err) {
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
	return c.operationOf(rec)
}

// find returns the operation's record from the client's store.
func (c *Client) find(ctx context.Context, name string) (store.Record, error) {
	switch {
	case c.closed.Load():
		return store.Record{}, ErrClosed
	case c.store == nil:
		return store.Record{}, errors.New("the client has no store: use WithStore")
	}
	if err := checkOperation(name); err != nil {
		return store.Record{}, err
	}
	return c.store.Find(ctx, store.ID{Scope: c.scope, Key: name})
}

// operationOf decodes a record. With an error it returns the fields that could be read.
func (c *Client) operationOf(rec store.Record) (Operation, error) {
	op := Operation{
		Name:        rec.ID.Key,
		State:       rec.State,
		Fingerprint: rec.Fingerprint,
		CreatedAt:   rec.CreatedAt,
		Age:         rec.Age(),
	}
	req, err := decodeRequest(rec.Meta)
	if err != nil {
		return op, fmt.Errorf("redo: operation %q: %w", op.Name, err)
	}
	op.Key, op.Method, op.URL, op.request = req.Key, req.Method, req.URL, &req
	op.Resumable = rec.State == store.StatePending && req.Rest == nil && req.resumable(true) == nil
	result := rec.Result
	if rec.State == store.StatePending {
		if req.Unapplied {
			op.Effect = NotApplied
		}
		result = req.Rest
	}
	if result == nil {
		return op, nil
	}
	s, err := decodeSettlement(result)
	if err != nil {
		return op, fmt.Errorf("redo: operation %q: %w", op.Name, err)
	}
	op.Effect, op.Code, op.Finding = s.effect, s.code, s.finding
	if s.response != nil {
		op.StatusCode = s.response.Status
	}
	return op, nil
}

// Resume continues a pending operation that [Client.Pending] or [Client.Find] returned. It sends the stored request
// under the stored key, or fails, and returns the results of [Client.Do]. Credentials are never stored: they come
// from [WithCredentials] or from the transport. Resume never makes a new key, even if the operation has been settled
// or forgotten meanwhile.
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
	case op.Name == "" || op.Key == "" || op.request == nil:
		return refuse(taxonomy.InvalidOperation, "the operation is not one that Pending listed")
	}
	if err := op.request.resumable(c.credentials != nil); err != nil {
		if errors.Is(err, errNoCredentials) {
			return refuse(taxonomy.Auth+".credentials", "%w", err)
		}
		return refuse(taxonomy.BodyNotReplayable, "%w: run the same code again", err)
	}
	var body io.Reader
	if op.request.Body != nil {
		body = bytes.NewReader(op.request.Body)
	}
	ctx = WithKey(WithOperation(ctx, op.Name), op.Key)
	req, err := http.NewRequestWithContext(ctx, op.request.Method, op.request.URL, body)
	if err != nil {
		return refuse(taxonomy.InvalidRequest, "%w", wire.WithoutURL(err))
	}
	if op.request.Host != "" {
		req.Host = op.request.Host
	}
	if op.request.Header != nil {
		req.Header = op.request.Header.Clone()
	}
	return c.Do(req)
}

// Forget removes an operation in any state, so that its next call starts anew with a new key. It is for an operation
// that redo could not settle and whose effect the caller knows; [Client.Settle] records the evidence instead. If an
// applied operation is forgotten and called again, it is applied twice. The error matches store.ErrNotFound if there
// is no such operation.
func (c *Client) Forget(ctx context.Context, name string) error {
	fail := func(err error) error { return fmt.Errorf("redo: Forget %q: %w", name, err) }
	for range maxClaims {
		rec, err := c.find(ctx, name)
		if err != nil {
			return fail(err)
		}
		switch f, ok := c.store.(store.Forgetter); {
		case rec.State == store.StatePending:
			err = c.store.Release(ctx, rec.Lease())
		case ok:
			err = f.Forget(ctx, rec.Lease())
		default:
			err = fmt.Errorf("%T can't forget a settled operation: it is no store.Forgetter", c.store)
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, store.ErrLost) {
			return fail(err)
		}
	}
	return fail(fmt.Errorf("%w: the record keeps changing", store.ErrUnavailable))
}
