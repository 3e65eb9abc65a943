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

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// An Operation is a pending operation as it was listed.
type Operation struct {
	// Name is the name given by [WithOperation].
	Name string
	// Key is its Idempotency-Key.
	Key string
	// Method and URL are empty when the client keeps no requests.
	Method, URL string
	// Fingerprint identifies its payload.
	Fingerprint store.Fingerprint
	// CreatedAt is when it was first called, and Age how long ago that was, by the store's clock.
	CreatedAt time.Time
	Age       time.Duration
	// Resumable says that the store holds the whole request. An operation that is not resumable is continued by
	// running the same code again.
	Resumable bool

	request *storedRequest // a pointer, so that no body shows where an Operation is printed
}

// Pending lists the operations that are neither complete nor failed, oldest first: what a crashed process left
// behind, what is running now, and what ended without a final answer. An error is yielded last, with a zero
// Operation. The loop's body may call the client.
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
			yield(Operation{}, fmt.Errorf("redo: Pending: %T can't list what is pending: it is no store.Lister", c.store))
			return
		}
		for rec, err := range lister.Pending(ctx, c.scope) {
			if err != nil {
				yield(Operation{}, fmt.Errorf("redo: listing pending operations: %w", err))
				return
			}
			if op, err := operationOf(rec); !yield(op, err) {
				return
			}
		}
	}
}

func operationOf(rec store.Record) (Operation, error) {
	op := Operation{Name: rec.ID.Key, Fingerprint: rec.Fingerprint, CreatedAt: rec.CreatedAt, Age: rec.Age()}
	req, err := decodeRequest(rec.Meta)
	if err != nil {
		return op, fmt.Errorf("redo: operation %q: %w", op.Name, err)
	}
	op.Key, op.Method, op.URL, op.Resumable, op.request = req.Key, req.Method, req.URL, req.Whole, &req
	return op, nil
}

// Resume continues a pending operation from the request that the store holds, under its key. Headers that were
// not stored, credentials above all, come from [WithCredentials] or from the transport. Its results are those
// of [Client.Do]; it never makes a new key, whatever became of the operation meanwhile.
func (c *Client) Resume(ctx context.Context, op Operation) (*http.Response, error) {
	refuse := func(code taxonomy.Code, format string, args ...any) (*http.Response, error) {
		return nil, &Error{Code: code, Operation: op.Name, Key: op.Key, Err: fmt.Errorf(format, args...)}
	}
	switch {
	case ctx == nil:
		return refuse(taxonomy.InvalidRequest, "redo: Resume: the context is nil")
	case c.store == nil:
		return refuse(taxonomy.InvalidOperation, "redo: Resume: the client has no store: use WithStore")
	case op.Name == "" || op.Key == "" || op.request == nil:
		return refuse(taxonomy.InvalidOperation, "redo: Resume: the operation is not one that Pending listed")
	case !op.Resumable:
		return refuse(taxonomy.BodyNotReplayable, "redo: Resume: the store does not hold the request: run the same code again")
	}
	var body io.Reader
	if op.request.Body != nil {
		body = bytes.NewReader(op.request.Body)
	}
	ctx = WithKey(WithOperation(ctx, op.Name), op.Key)
	req, err := http.NewRequestWithContext(ctx, op.request.Method, op.request.URL, body)
	if err != nil {
		return refuse(taxonomy.InvalidRequest, "redo: Resume: %w", withoutURL(err))
	}
	if op.request.Host != "" {
		req.Host = op.request.Host
	}
	if op.request.Header != nil {
		req.Header = op.request.Header.Clone()
	}
	return c.Do(req)
}

// Forget removes an operation, whatever its state, so that its next call starts anew with a new key. It is for
// the caller who has found out what happened to an operation that redo could not settle: forgetting one that
// was applied, and calling it again, applies it twice. It returns an error matching store.ErrNotFound when
// there is no such operation.
func (c *Client) Forget(ctx context.Context, name string) error {
	switch {
	case c.closed.Load():
		return ErrClosed
	case c.store == nil:
		return errors.New("redo: Forget: the client has no store: use WithStore")
	}
	if err := checkOperation(name); err != nil {
		return err
	}
	for range maxClaims {
		rec, err := c.store.Find(ctx, store.ID{Scope: c.scope, Key: name})
		if err != nil {
			return fmt.Errorf("redo: Forget %q: %w", name, err)
		}
		switch f, ok := c.store.(store.Forgetter); {
		case rec.State == store.StatePending:
			err = c.store.Release(ctx, rec.Lease())
		case ok:
			err = f.Forget(ctx, rec.Lease())
		default:
			return fmt.Errorf("redo: Forget %q: %T can't forget a settled operation: it is no store.Forgetter", name, c.store)
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, store.ErrLost) {
			return fmt.Errorf("redo: Forget %q: %w", name, err)
		}
	}
	return fmt.Errorf("redo: Forget %q: %w: the record keeps changing", name, store.ErrUnavailable)
}
