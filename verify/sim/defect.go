package sim

import (
	"net/http"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
)

// A defect is a broken part, planted around the real ones. The zero defect is none.
type defect struct {
	name string
	plan func(*plan) // makes the circumstances frequent in which it shows; its twin has them too

	transport  func(*world, http.RoundTripper) http.RoundTripper // under clients and gateways
	records    func(*world, *process, backend) backend           // the store of a client
	client     []redo.Option
	store      func(*world, *txGate) store.Store // of a server that does not commit in one transaction
	server     []server.Option
	handler    func(*world, http.Handler) http.Handler // inside of the middleware
	outside    func(*world, http.Handler) http.Handler // outside of it
	secrets    bool                                    // each gateway has its own
	silent     bool                                    // the service announces no events
	publisher  func(*world, outbox.Publisher) outbox.Publisher
	queue      func(*world, outbox.Queue) outbox.Queue
	inbox      []inbox.Option
	identify   func(*world, inbox.Identify) inbox.Identify
	consumer   func(*world, http.Handler) http.Handler
	plainInbox bool // record and effect of an event are two commits
}
