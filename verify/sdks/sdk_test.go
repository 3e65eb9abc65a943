package sdks

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store/memstore"
)

// An sdk is one operation of a real SDK, and the part of its API that the provider plays.
type sdk struct {
	name string
	// call makes the operation through a new client of the SDK. It returns the ID of the response's object.
	call func(ctx context.Context, to target) (id string, err error)
	// options are the redo options that a user of the SDK sets.
	options []redo.Option
	// match selects the operation's requests. Nil: every request.
	match func(*http.Request) bool
	// key returns the key of a request, as the API reads it.
	key func(r *http.Request, body []byte) string
	// check refuses a request, for example because of its signature. Nil: none is refused.
	check func(r *http.Request, body []byte) error
	// respond returns the response to the request that made the object.
	respond func(id string, r *http.Request, body []byte) (contentType, response string)
	// aside serves the requests that are no operations. It returns false for the others. Nil: every request is one.
	aside func(w http.ResponseWriter, r *http.Request) bool
	// retries is the number of retries that the SDK makes by default.
	retries int
	// keyless is true if the SDK and its user give an unnamed call no key.
	keyless bool
	// varies is true if two calls of the same code have bodies that differ. A derived key then does not suffice: only
	// the store has the first body.
	varies bool
	// streams is true if the SDK reads the response as it comes.
	streams bool
}

// all are the SDKs that every case runs.
func all() []sdk {
	return []sdk{stripeSDK, openaiSDK, uploadSDK, anthropicSDK, streamSDK, secretsSDK, snsSDK, paypalSDK, googleSDK,
		razorpaySDK, restySDK}
}

// A target holds the parameters of an SDK's client.
type target struct {
	http *http.Client // over redo's Transport
	url  string
	// token names the call in the payload, for APIs that have their key there. It is the caller's, and is the same
	// each time that the same code runs.
	token string
	// retries leaves the SDK's default retries on. Otherwise the SDK makes one request for each call.
	retries bool
	// limit is the SDK's time limit of one request. Zero: the SDK's default. Only openai-go's client has it.
	limit time.Duration
}

// operation is the name that the cases give to the operation.
const operation = "order:1138"

// run makes the operation of the SDK over a redo client.
func (s sdk) run(ctx context.Context, c *redo.Client, url string, retries bool) (id string, err error) {
	return s.call(ctx, target{http: httpOver(c), url: url, token: "token-of-" + operation, retries: retries})
}

// named returns a context with the operation's name.
func (s sdk) named(ctx context.Context) context.Context {
	return redo.WithOperationFor(ctx, operation, s.match)
}

// quick is a retry policy with short waits.
var quick = redo.RetryPolicy{BaseDelay: 5 * time.Millisecond, Jitter: redo.ConstantDelay}

// once is a retry policy without retries.
var once = redo.RetryPolicy{MaxAttempts: 1}

// client returns a redo client with the SDK's options, and then those of the case.
func (s sdk) client(t *testing.T, p redo.RetryPolicy, opts ...redo.Option) *redo.Client {
	t.Helper()
	all := append([]redo.Option{redo.WithRetry(p)}, s.options...)
	return connect(t, append(all, opts...)...)
}

func connect(t *testing.T, opts ...redo.Option) *redo.Client {
	t.Helper()
	c, err := redo.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// openStore returns a store that is closed at the test's end.
func openStore(t *testing.T) *memstore.Store {
	t.Helper()
	st := memstore.New()
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// keyHeader returns a function that reads a key header.
func keyHeader(name string) func(*http.Request, []byte) string {
	return func(r *http.Request, _ []byte) string { return r.Header.Get(name) }
}

// A keeping is a way in which an operation's key outlives a call. options returns the options of another client that
// has the same keys.
type keeping struct {
	name    string
	options func() []redo.Option
}

// keepings are a store, and keys that are derived from the operation's name.
func (s sdk) keepings(t *testing.T) []keeping {
	st := openStore(t)
	kept := []keeping{{"stored", func() []redo.Option { return []redo.Option{redo.WithStore(st)} }}}
	if !s.varies {
		derived := redo.WithKeys(redo.DerivedKeys("test"))
		kept = append(kept, keeping{"derived", func() []redo.Option { return []redo.Option{derived} }})
	}
	return kept
}

// retrying are the SDKs that retry by default.
func retrying() []sdk {
	return slices.DeleteFunc(all(), func(s sdk) bool { return s.retries == 0 })
}

// forEach runs the case under each SDK, concurrently.
func forEach(t *testing.T, sdks []sdk, f func(t *testing.T, s sdk)) {
	t.Parallel()
	for _, s := range sdks {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			f(t, s)
		})
	}
}

// httpOver returns an http.Client over the redo client.
func httpOver(c *redo.Client) *http.Client { return &http.Client{Transport: c.Transport()} }
