package redo

import (
	"context"
	"fmt"
	"net/http"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// MaxOperation is the longest operation name, in bytes.
const MaxOperation = 512

// intent is what the caller's context says about the request.
type intent struct {
	name, key     string
	named, hasKey bool
}

type intentKey struct{}

func intentOf(ctx context.Context) intent {
	if ctx == nil {
		return intent{}
	}
	in, _ := ctx.Value(intentKey{}).(intent)
	return in
}

// WithOperation names the operation that requests made with the returned context belong to: one thing that is
// to be done once, such as "refund:ch_9ab:1000". The same name finds the same key, over retries, restarts and
// (with a shared store or [DerivedKeys]) machines. A name is 1 to [MaxOperation] bytes of UTF-8 without control
// characters; [Client.Do] refuses others.
//
// One operation is one request: calls with the same name and another payload fail and send nothing.
func WithOperation(ctx context.Context, name string) context.Context {
	in := intentOf(ctx)
	in.name, in.named = name, true
	return context.WithValue(ctx, intentKey{}, in)
}

// WithKey sets the Idempotency-Key itself, for callers who already have one: a key that arrived with a request
// and is passed on, or one that another system keeps. It is 1 to 255 printable ASCII characters; [Client.Do]
// refuses others. Together with [WithOperation] the operation is stored under its name and sent with this key.
func WithKey(ctx context.Context, key string) context.Context {
	in := intentOf(ctx)
	in.key, in.hasKey = key, true
	return context.WithValue(ctx, intentKey{}, in)
}

// operation is what a call knows of its operation.
type operation struct {
	name     string // empty: none
	key      string // empty: the request carries none
	fixedKey bool   // the caller set the key
	stored   bool   // the operation is in the store
	prior    bool   // the operation was pending when this call began
}

// claimed is what a call whose operation is stored has of it.
type claimed struct {
	fingerprint store.Fingerprint
	lease       store.Lease
	request     storedRequest  // as it stands in the record
	answer      *wire.Response // what is to be kept of the answer
	tooLong     bool           // its body is over the cap
}

// plan finds the operation's name and key, or why the request can't be sent. A new operation's key is made
// later, once the store has said that it is new.
func (c *Client) plan(req *http.Request) (operation, *Error) {
	if safeMethod(req.Method) || req.Response != nil {
		// A request that net/http itself made while following a redirect is not the operation's: the key stays
		// with the origin that it was made for.
		return operation{}, nil
	}
	in := intentOf(req.Context())
	op := operation{name: in.name, key: in.key, fixedKey: in.hasKey}
	if in.named {
		if err := checkOperation(in.name); err != nil {
			return op, &Error{Code: taxonomy.InvalidOperation, Effect: NotApplied, Err: err}
		}
	}
	if lines := req.Header[c.profile.Header]; len(lines) > 0 && !op.fixedKey {
		key, err := wire.ParseKey(lines)
		if err != nil {
			return op, &Error{Code: taxonomy.KeyMalformed, Operation: op.name, Effect: NotApplied, Err: fmt.Errorf("redo: the request's own %s header: %w", c.profile.Header, err)}
		}
		op.key, op.fixedKey = key, true
	}
	if op.fixedKey {
		if err := c.checkKey(op.key); err != nil {
			return op, &Error{Code: taxonomy.KeyMalformed, Operation: op.name, Effect: NotApplied, Err: err}
		}
	}
	return op, nil
}

// wantsKey reports whether a key has to be made for the request.
func (c *Client) wantsKey(op operation, req *http.Request) bool {
	return op.key == "" && c.keys != nil && req.Response == nil && !safeMethod(req.Method) && (op.name != "" || c.profile.keyed(req.Method))
}

// newKey makes a key. The default kind takes the time that the call has read already, and needs no check: New has
// seen that the profile takes it.
func (c *Client) newKey(name string, now time.Time) (string, *Error) {
	var key string
	var err error
	if !c.ownKeys {
		key, err = timeOrderedKey(now)
	} else if key, err = c.keys(name); err == nil {
		err = c.checkKey(key)
	}
	if err != nil {
		return "", &Error{Code: taxonomy.KeyMalformed, Operation: name, Effect: NotApplied, Err: err}
	}
	return key, nil
}

func (c *Client) checkKey(key string) error {
	if err := wire.CheckKey(key); err != nil {
		return fmt.Errorf("redo: %w", err)
	}
	if len(key) > c.profile.MaxKey {
		return fmt.Errorf("redo: the key has %d characters, profile %q takes at most %d", len(key), c.profile.Name, c.profile.MaxKey)
	}
	return nil
}

func checkOperation(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("redo: the operation's name is empty")
	case len(name) > MaxOperation:
		return fmt.Errorf("redo: the operation's name has %d bytes, at most %d are allowed: %.32q…", len(name), MaxOperation, name)
	case !utf8.ValidString(name):
		return fmt.Errorf("redo: the operation's name %q is not UTF-8", name)
	}
	for i, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("redo: the operation's name %q has the control character %U at byte %d", name, r, i)
		}
	}
	return nil
}

// KeyOf returns the Idempotency-Key of the operation that a response of this package answers, empty when it had
// none, and for nil.
func KeyOf(resp *http.Response) string {
	if c := callOf(resp); c != nil {
		return c.op.key
	}
	return ""
}

// Replayed reports whether a response repeats an earlier answer: the server says so in one of the markers of
// the contract, or it came from the client's own store.
func Replayed(resp *http.Response) bool {
	if resp == nil {
		return false
	}
	if c := callOf(resp); c != nil && c.fromStore {
		return true
	}
	return taxonomy.Replayed(resp.Header)
}

func callOf(resp *http.Response) *call {
	if resp == nil || resp.Request == nil {
		return nil
	}
	return callFrom(resp.Request.Context())
}
