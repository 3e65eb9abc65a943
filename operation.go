package redo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/redo-go/redo/internal/exchange"
	"github.com/redo-go/redo/internal/journal"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// MaxOperation is the longest operation name, in bytes.
const MaxOperation = journal.MaxName

// An intent holds the settings that the caller's context carries.
type intent struct {
	name, key     string
	named, hasKey bool
	match         func(*http.Request) bool // nil: every request
	policy        *RetryPolicy
	report        *Report
	noRedirects   bool
	resumes       bool // Resume: the operation must be in the store
	json          bool // Resume: the operation is one of Call
}

type intentKey struct{}

// intentOf returns the settings in ctx. It returns the zero intent if there are none, and for nil.
func intentOf(ctx context.Context) intent {
	if ctx == nil {
		return intent{}
	}
	in, _ := ctx.Value(intentKey{}).(intent)
	return in
}

// WithOperation names the operation of the requests that are made with the returned context. An operation is one
// thing to be done once, such as "refund:ch_9ab:1000". The same name finds the same key, over retries and restarts.
// With a shared store or [DerivedKeys] it finds the key on every machine.
//
// A name has 1 to [MaxOperation] bytes of UTF-8 without control characters; a call with any other name fails. The
// call also fails if the client has no store, no [DerivedKeys] and no [WithKey], because the name would have no
// effect. Safe requests (GET, HEAD, OPTIONS, TRACE, QUERY) ignore the name.
//
// One operation is one request. With a store, a call with the same name and another payload fails and sends nothing.
func WithOperation(ctx context.Context, name string) context.Context {
	return WithOperationFor(ctx, name, nil)
}

// WithOperationFor is like [WithOperation], but names only the requests for which match returns true. Under an SDK
// other requests on the same context, such as a token refresh, then get no name, and no key from [WithKey]. A nil
// match names every request.
func WithOperationFor(ctx context.Context, name string, match func(*http.Request) bool) context.Context {
	in := intentOf(ctx)
	in.name, in.named, in.match = name, true, match
	return context.WithValue(ctx, intentKey{}, in)
}

// WithKey sets the Idempotency-Key, for callers who have one already. Such a key arrived with a request and is passed
// on, or another system keeps it. It has 1 to 255 printable ASCII characters. A call with any other key fails, and so
// does a call under a profile with NoKeys.
// Together with [WithOperation] the operation is stored under its name and sent with this key.
func WithKey(ctx context.Context, key string) context.Context {
	in := intentOf(ctx)
	in.key, in.hasKey = key, true
	return context.WithValue(ctx, intentKey{}, in)
}

// WithPolicy replaces the client's retry policy for the calls made with the returned context. Zero fields take the
// defaults of [RetryPolicy]. A call with an invalid policy fails and sends nothing.
func WithPolicy(ctx context.Context, p RetryPolicy) context.Context {
	in := intentOf(ctx)
	in.policy = &p
	return context.WithValue(ctx, intentKey{}, in)
}

// WithoutRedirects returns a context whose calls follow no redirect. [Client.Do] and [Client.Transport] then return a
// 3xx response, with any Location.
func WithoutRedirects(ctx context.Context) context.Context {
	in := intentOf(ctx)
	in.noRedirects = true
	return context.WithValue(ctx, intentKey{}, in)
}

// An operation is the request's name and key.
type operation struct {
	name    string
	key     string // empty: not made yet, or none
	given   bool   // the caller set the key with WithKey
	stored  bool   // the name is kept in the store
	lasting bool   // the next call of the same operation sends the same key
	fresh   bool   // this call made the key, so that no earlier call can have sent it
}

// refuse returns the error of an operation that is not sent. The call adds its effect.
func (op operation) refuse(code taxonomy.Code, err error) *Error {
	return &Error{Code: code, Operation: op.name, Err: err}
}

// unplanned returns the operation that the settings name, of a request that can't be sent.
func (c *Client) unplanned(in intent, method string) operation {
	if wire.SafeMethod(method) {
		return operation{}
	}
	return operation{name: in.name, key: in.key, given: in.hasKey, stored: in.named && c.store != nil}
}

// plan returns the request's operation, or an error if the request can't be sent. It makes the key, except for a
// stored operation, whose key may be in the store.
func (c *Client) plan(req *http.Request, in intent, m mode) (operation, *Error) {
	if wire.SafeMethod(req.Method) {
		return operation{}, nil
	}
	if req.Response != nil { // an http.Client above follows a redirect
		if l := loopOfResponse(req.Response); l != nil && l.call.keyed() {
			return l.call.op, l.call.op.refuse(taxonomy.RedirectNotFollowed, exchange.WithoutKey(req))
		}
		return operation{}, nil
	}
	var op operation
	if (in.named || in.hasKey) && (in.match == nil || in.match(req)) {
		op = operation{
			name: in.name, key: in.key, given: in.hasKey, lasting: in.hasKey, stored: in.named && c.store != nil,
		}
		if err := journal.CheckName(op.name); in.named && err != nil {
			return op, op.refuse(taxonomy.InvalidOperation, err)
		}
		if c.profile.NoKeys {
			return op, op.refuse(taxonomy.InvalidOperation,
				fmt.Errorf("redo: profile %q has no idempotency keys: a name or WithKey has no effect", c.profile.Name))
		}
	}
	replaced := op.name != "" && m == modeTransport && !c.profile.KeepRequestKey // an SDK makes a key for each call
	if line := wire.Lines(req.Header, c.profile.Header); line != nil && !op.given {
		key, err := wire.ParseKey(line)
		if err != nil && m == modeTransport && op.name == "" && !c.optedIn {
			return op, nil // the request goes through as net/http would send it
		}
		if err != nil {
			return op, op.refuse(taxonomy.KeyMalformed, fmt.Errorf("redo: the request's %s header: %w", c.profile.Header, err))
		}
		if !replaced {
			own := op.name != "" && m != modeTransport // the caller's, and not an SDK's for this one call
			op.key, op.given, op.lasting = key, own, own
		}
	}
	if op.key != "" || op.given {
		if err := c.checkKey(op.key); err != nil {
			return op, op.refuse(taxonomy.KeyMalformed, err)
		}
	}
	if op.key != "" || op.stored || !c.wantsKey(op, req, m) {
		return op, nil
	}
	made, e := c.makeKey(op)
	if e != nil && m == modeTransport && errors.Is(e, errNameless) {
		return op, nil // an SDK's own request, such as the one for a token: it is sent once
	}
	return made, e
}

// wantsKey reports whether an operation that is not stored and has no key needs one.
func (c *Client) wantsKey(op operation, req *http.Request, m mode) bool {
	switch {
	case op.name != "":
		return true
	case c.keys == nil, c.profile.NoKeys, c.profile.KeyInBody, wire.SendsStream(req), m == modeTransport && !c.optedIn:
		return false // without optedIn, the client is not configured for servers that honour keys
	}
	return slices.Contains(c.profile.Methods, req.Method)
}

// makeKey makes the operation's key, and finds out whether it depends on the name alone. Another program, or a store
// that was lost, may then have sent it before. A name without a store needs such a key.
func (c *Client) makeKey(op operation) (operation, *Error) {
	if c.keys == nil {
		return op, op.refuse(taxonomy.KeyMissing,
			errors.New("redo: the operation has no key: WithKeys(nil) leaves it to WithKey"))
	}
	key, err := c.keys(op.name)
	if err == nil {
		err = c.checkKey(key)
	}
	if err != nil {
		return op, op.refuse(taxonomy.KeyMalformed, err)
	}
	if op.name != "" {
		again, err := c.keys(op.name)
		op.lasting = err == nil && again == key
		if !op.lasting && !op.stored {
			return op, op.refuse(taxonomy.InvalidOperation,
				errors.New("redo: the operation's name has no effect: use WithStore, DerivedKeys or WithKey"))
		}
	}
	op.key, op.fresh = key, !op.lasting
	return op, nil
}

// checkKey refuses a key that no header can carry, or that is too long for the profile.
func (c *Client) checkKey(key string) error {
	if err := wire.CheckKey(key); err != nil {
		return fmt.Errorf("redo: %w", err)
	}
	if len(key) > c.profile.MaxKey {
		return fmt.Errorf("redo: the key has %d characters, profile %q takes at most %d", len(key),
			c.profile.Name, c.profile.MaxKey)
	}
	return nil
}
