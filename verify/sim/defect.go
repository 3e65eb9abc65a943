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
	name   string
	breaks []rule      // one of them is broken first
	plan   func(*plan) // makes the circumstances frequent in which it shows; its twin has them too

	// Clients and gateways.
	transport func(*world, http.RoundTripper) http.RoundTripper
	records   func(*world, *process, backend) backend // the store of a client or a gateway
	client    func(plan) []redo.Option
	secrets   bool // each gateway has its own

	// Servers.
	store   func(*world, *txGate) store.Store // if the effect is not in the transaction of its record
	server  []server.Option
	handler func(*world, http.Handler) http.Handler // inside of the middleware
	outside func(*world, http.Handler) http.Handler // outside of it
	keyless bool                                    // the route requires no key
	event   func(*world, message) (atCommit func()) // in place of the announcement

	// Relays and consumers.
	publisher  func(*world, outbox.Publisher) outbox.Publisher
	inbox      []inbox.Option
	identify   func(*world, inbox.Identify) inbox.Identify
	consumer   func(*world, http.Handler) http.Handler
	plainInbox bool // record and effect of an event are two commits
}

// twin returns the same circumstances without the defect.
func (d defect) twin() defect { return defect{name: d.name, plan: d.plan} }
