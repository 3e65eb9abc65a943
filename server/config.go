package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/null"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
)

const (
	minPepper   = 16
	minLeaseTTL = time.Millisecond
)

// A config holds the values of the options. It does not change after New has returned.
type config struct {
	required               bool
	skip                   func(*http.Request) bool // nil: none
	keyHeader              string                   // in canonical form
	principal              func(*http.Request) string
	sharedKeys             bool
	routeName              string   // "": the pattern
	scopeName              string   // "": none
	peppers                [][]byte // the first one is for new records
	retention              time.Duration
	leaseTTL               time.Duration
	handlerTimeout         time.Duration
	ownTimeout             bool // HandlerTimeout was given
	storeTimeout           time.Duration
	cancelOnDisconnect     bool
	wait                   time.Duration
	maxWaiters             int
	maxWaitersPerPrincipal int
	maxWaitersPerKey       int
	methods                []string
	keyFormats             []func(string) error
	uuidKeys               bool
	refuseExpired          bool
	ietfStatuses           bool
	inFlightStatus         int
	canonicalJSON          bool
	fingerprint            func(*http.Request, []byte) (store.Fingerprint, error)
	maxBody                int
	maxResponse            int
	failOpen               bool
	transactional          func(store.Store) (opener, error) // nil: by lease
	keep                   func(status int) bool
	replayHeader           func(name string) bool                            // nil: all
	refusal                func(http.ResponseWriter, *http.Request, Problem) // nil: problem documents
	silentOK               bool
	background             *Background
	takeOver               TakeOverPolicy
	logger                 *slog.Logger
	observer               Observer
	starts                 RequestObserver // the observer, if it is one

	wrong []error
}

// errNoPrincipal is the error for a configuration that does not state to whom a key belongs.
var errNoPrincipal = errors.New("server: the owner of a key is not configured: " +
	"give Principal(f) with the function that returns the authenticated caller of a request, or SharedKeys() if all " +
	"callers may share one key space")

func newConfig(opts []Option) (config, error) {
	c := config{
		keyHeader:              wire.HeaderKey,
		retention:              DefaultRetention,
		leaseTTL:               DefaultLeaseTTL,
		handlerTimeout:         DefaultHandlerTimeout,
		storeTimeout:           DefaultStoreTimeout,
		maxWaiters:             DefaultMaxWaiters,
		maxWaitersPerPrincipal: DefaultMaxWaitersPerPrincipal,
		maxWaitersPerKey:       DefaultMaxWaitersPerKey,
		keep:                   DefaultKeep,
		methods:                []string{http.MethodPost, http.MethodPatch},
		inFlightStatus:         http.StatusConflict,
		maxBody:                DefaultMaxBody,
		maxResponse:            DefaultMaxResponse,
	}
	for _, o := range opts {
		if o == nil {
			c.check(false, "Option", "an option is nil")
			continue
		}
		o.apply(&c)
	}
	if !c.ownTimeout {
		c.handlerTimeout = min(c.handlerTimeout, c.retention)
	}
	return c, c.validate()
}

// validate returns an error that names every wrong value.
func (c *config) validate() error {
	if c.principal == nil && !c.sharedKeys {
		c.wrong = append(c.wrong, errNoPrincipal)
	}
	c.check(c.principal == nil || !c.sharedKeys, "SharedKeys", "it does not go together with Principal")
	c.check(c.retention > 0, "Retention", "%v is not positive", c.retention)
	c.check(c.leaseTTL >= minLeaseTTL, "LeaseTTL", "%v is less than %v", c.leaseTTL, minLeaseTTL)
	c.check(c.leaseTTL != store.Forever, "LeaseTTL",
		"a lease can't be forever, or a crash would block the key for good")
	c.check(c.leaseTTL <= c.retention || c.transactional != nil, "LeaseTTL",
		"%v is longer than the retention, %v", c.leaseTTL, c.retention)
	if c.ownTimeout {
		c.check(c.handlerTimeout > 0, "HandlerTimeout", "%v is not positive", c.handlerTimeout)
		c.check(c.handlerTimeout <= c.retention, "HandlerTimeout",
			"%v is longer than the retention, %v", c.handlerTimeout, c.retention)
	}
	c.check(c.storeTimeout > 0, "StoreTimeout", "%v is not positive", c.storeTimeout)
	c.check(c.wait >= 0, "Wait", "%v is negative", c.wait)
	c.check(c.maxWaiters > 0, "MaxWaiters", "%d is not positive", c.maxWaiters)
	c.check(c.maxWaitersPerPrincipal > 0, "MaxWaitersPerPrincipal", "%d is not positive", c.maxWaitersPerPrincipal)
	c.check(c.maxWaitersPerKey > 0, "MaxWaitersPerKey", "%d is not positive", c.maxWaitersPerKey)
	c.check(len(c.methods) > 0, "Methods", "no method is left")
	for _, m := range c.methods {
		c.check(m != "", "Methods", "a method is empty")
		c.check(m == "" || !wire.SafeMethod(m), "Methods", "%s never reserves a key", m)
		c.check(m == "" || wire.Token(m) && m == strings.ToUpper(m), "Methods", "%q is not a method's name in capitals", m)
	}
	c.check(c.inFlightStatus == http.StatusConflict || c.inFlightStatus == http.StatusTooEarly,
		"InFlightStatus", "%d is neither 409 nor 425", c.inFlightStatus)
	c.check(c.maxBody >= 0, "MaxBody", "%d is negative", c.maxBody)
	c.check(c.maxResponse >= 0, "MaxResponse", "%d is negative", c.maxResponse)
	c.check(!null.Hidden(c.observer), "Observe", "the observer is a nil pointer")
	c.check(!c.canonicalJSON || c.fingerprint == nil, "CanonicalJSON", "it does not go together with Fingerprint")
	c.check(!c.failOpen || c.transactional == nil, "Transactional",
		"it does not go together with FailOpen: nothing may run outside of the transaction")
	return errors.Join(c.wrong...)
}

// check records an error for the option unless ok is true.
func (c *config) check(ok bool, option, rule string, args ...any) {
	if !ok {
		c.wrong = append(c.wrong, fmt.Errorf("server: option %s: "+rule, append([]any{option}, args...)...))
	}
}

// covers reports whether a request with this method reserves its key.
func (c *config) covers(method string) bool {
	return slices.Contains(c.methods, method)
}
