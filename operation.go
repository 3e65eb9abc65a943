package redo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// MaxOperation is the longest operation name, in bytes.
const MaxOperation = 512

// An intent holds the settings that the caller's context carries.
type intent struct {
	name, key     string
	named, hasKey bool
	match         func(*http.Request) bool // nil: every request
	policy        *RetryPolicy
	report        *Report
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
// other requests on the same context, such as a token refresh, then get no name. A nil match names every request.
func WithOperationFor(ctx context.Context, name string, match func(*http.Request) bool) context.Context {
	in := intentOf(ctx)
	in.name, in.named, in.match = name, true, match
	return context.WithValue(ctx, intentKey{}, in)
}

// WithKey sets the Idempotency-Key, for callers who have one already. Such a key arrived with a request and is passed
// on, or another system keeps it. It has 1 to 255 printable ASCII characters; a call with any other key fails.
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

// An operation is the request's name and key.
type operation struct {
	name    string
	key     string // empty: not made yet, or none
	given   bool   // the caller set the key with WithKey
	stored  bool   // the name is kept in the store
	lasting bool   // the next call of the same operation sends the same key
	fresh   bool   // this call made the key, so that no earlier call can have sent it
}

// plan returns the request's operation, or an error if the request can't be sent. It makes the key, except for a
// stored operation, whose key may be in the store.
func (c *Client) plan(req *http.Request, in intent, m mode) (operation, *Error) {
	if wire.SafeMethod(req.Method) || req.Response != nil {
		// An http.Client above makes a request with a Response while it follows a redirect. The key stays with the
		// origin that it was made for.
		return operation{}, nil
	}
	op := operation{key: in.key, given: in.hasKey, lasting: in.hasKey}
	refuse := func(code taxonomy.Code, err error) (operation, *Error) {
		return op, &Error{Code: code, Operation: op.name, Effect: NotApplied, Err: err}
	}
	if in.named && (in.match == nil || in.match(req)) {
		op.name = in.name
		if err := checkOperation(op.name); err != nil {
			return refuse(taxonomy.InvalidOperation, err)
		}
		if c.profile.NoKeys {
			return refuse(
				taxonomy.InvalidOperation,
				fmt.Errorf("redo: profile %q has no idempotency keys: a named operation can't be repeated safely", c.profile.Name),
			)
		}
		op.stored = c.store != nil
	}
	replaced := op.name != "" && m == modeTransport && !c.profile.KeepRequestKey // an SDK makes a key for each call
	if line := keyLines(req.Header, c.profile.Header); line != nil && !op.given {
		key, err := wire.ParseKey(line)
		if err != nil && m == modeTransport && op.name == "" && !c.optedIn {
			return op, nil // the request goes through as net/http would send it
		}
		if err != nil {
			return refuse(taxonomy.KeyMalformed, fmt.Errorf("redo: the request's own %s header: %w", c.profile.Header, err))
		}
		if !replaced {
			own := op.name != "" && m != modeTransport // the caller's, and not an SDK's for this one call
			op.key, op.given, op.lasting = key, own, own
		}
	}
	if op.key != "" || op.given {
		if err := c.checkKey(op.key); err != nil {
			return refuse(taxonomy.KeyMalformed, err)
		}
	}
	if op.key != "" || op.stored || !c.wantsKey(op, req.Method, m) {
		return op, nil
	}
	made, e := c.makeKey(op)
	if e != nil && m == modeTransport && errors.Is(e, errNameless) {
		return op, nil // an SDK's own request, such as the one for a token: it is sent once
	}
	return made, e
}

// wantsKey reports whether an operation that is not stored and has no key needs one.
func (c *Client) wantsKey(op operation, method string, m mode) bool {
	switch {
	case op.name != "":
		return true
	case c.keys == nil || c.profile.NoKeys || c.profile.KeyInBody:
		return false
	case m == modeTransport && !c.optedIn:
		return false // the client is not configured for servers that honour keys
	}
	return slices.Contains(c.profile.Methods, method)
}

// makeKey makes the operation's key. A name without a store needs a key that depends on the name alone.
func (c *Client) makeKey(op operation) (operation, *Error) {
	refuse := func(code taxonomy.Code, err error) (operation, *Error) {
		return op, &Error{Code: code, Operation: op.name, Effect: NotApplied, Err: err}
	}
	if c.keys == nil {
		return refuse(taxonomy.KeyMissing, errors.New("redo: the operation has no key: WithKeys(nil) leaves it to WithKey"))
	}
	key, err := c.keys(op.name)
	if err == nil {
		err = c.checkKey(key)
	}
	if err != nil {
		return refuse(taxonomy.KeyMalformed, err)
	}
	if op.name != "" && !op.stored {
		again, err := c.keys(op.name)
		if err != nil || again != key {
			return refuse(
				taxonomy.InvalidOperation,
				errors.New("redo: the operation's name has no effect: use WithStore, DerivedKeys or WithKey"),
			)
		}
		op.lasting = true
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
		return fmt.Errorf(
			"redo: the key has %d characters, profile %q takes at most %d",
			len(key),
			c.profile.Name,
			c.profile.MaxKey,
		)
	}
	return nil
}

// keyLines returns the values of the key header, in any spelling of its name. It returns nil if there is none.
func keyLines(h http.Header, header string) []string {
	if lines := h[header]; lines != nil {
		return lines
	}
	for name, lines := range h {
		if len(name) == len(header) && http.CanonicalHeaderKey(name) == header {
			return lines
		}
	}
	return nil
}

// checkOperation refuses a name that [WithOperation] does not allow.
func checkOperation(name string) error {
	switch {
	case name == "":
		return errors.New("redo: the operation's name is empty")
	case len(name) > MaxOperation:
		return fmt.Errorf(
			"redo: the operation's name has %d bytes, at most %d are allowed: %.32q…",
			len(name),
			MaxOperation,
			name,
		)
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
