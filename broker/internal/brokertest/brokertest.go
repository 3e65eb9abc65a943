// Package brokertest holds the tests that every package for a broker passes: with its publisher, its consumer, and a
// broker that runs on this machine.
package brokertest

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/redo-go/redo/broker"
	"github.com/redo-go/redo/outbox"
)

// A Broker is a running broker with one destination and one consumer. It lasts for one test.
type Broker struct {
	Publisher   outbox.Publisher
	Destination string

	// Stored returns the messages at the destination. It is called once, last, and may take them.
	Stored func(t *testing.T) []Message
	// Pending returns how many messages the consumer has not acknowledged.
	Pending func(t *testing.T) int
	// Foreign sends a message that no publisher of this project has made.
	Foreign func(t *testing.T, payload string)
	// Stop ends the broker.
	Stop func(t *testing.T)
	// Expire makes the broker give up a consumer that was killed. Nil means that the broker soon does so on its
	// own.
	Expire func()
	// Address is the broker's address for Consume, also from another process.
	Address string
	// Consume brings the messages to receive until ctx ends.
	Consume Consume

	// Terminal and Transient are events that the broker does not take, by the rule that they break.
	Terminal, Transient map[string]outbox.Event

	// NeverSent is set if Publish can tell that nothing was sent to a broker that is down.
	NeverSent bool
	// Deduplicates is set if the broker stores an id once.
	Deduplicates bool
	// Ordered is set if the consumer keeps the order of an ordering key while an event is repeated. Without it another
	// event of the key overtakes.
	Ordered bool
	// Keyless is set if a message has no ordering key.
	Keyless bool
	// Joins is set if the broker has one value for a name: the values of a header are joined by ", ".
	Joins bool
}

// Consume brings the messages of the consumer at the address to receive until ctx ends.
type Consume func(ctx context.Context, address, source string, receive broker.Receive) error

// A Message is a message as the broker has it.
type Message struct {
	ID          string // in broker.HeaderID
	Dedup       string // by which the broker deduplicates; "" if it does not
	Type        string // in broker.HeaderType
	OrderingKey string
	Header      http.Header // without the id and the type, and without the broker's own
	Payload     string
}

// Run runs the tests. open starts a broker, or empties one, and cleans up when the test ends.
func Run(t *testing.T, open func(t *testing.T) *Broker) {
	t.Helper()
	for _, c := range slices.Concat(publishing, consuming) {
		t.Run(c.rule, func(t *testing.T) { c.run(t, open(t)) })
	}
}

// A testCase is one rule.
type testCase struct {
	rule string
	run  func(t *testing.T, b *Broker)
}
