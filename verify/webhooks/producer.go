package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/server"
)

// request is the body of a request for a payment, a refund or a void.
type request struct {
	Reference string `json:"reference"`
	Payment   string `json:"payment,omitempty"` // which one is refunded or voided
	Amount    int    `json:"amount,omitempty"`  // in cents; a void takes the rest
}

// receipt is the body of the response.
type receipt struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

// notice is the body of a webhook.
type notice struct {
	Type      string `json:"type"` // such as refund.created
	Reference string `json:"reference"`
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Payment   string `json:"payment"`
	Amount    int    `json:"amount"`
}

// produce is the producer's process.
func produce(ctx context.Context, r role) error {
	if r.Postgres != "" {
		p, err := inSchema(ctx, r.Postgres, r.Schema)
		if err != nil {
			return err
		}
		defer p.close()
		return newProducer(p, r).serve(r.Address)
	}
	p, err := inFile(ctx, r.File)
	if err != nil {
		return err
	}
	defer p.close()
	// The file belongs to this process alone, so the relay must run in it.
	deliver, err := newRelay(p.queue, r.Secrets)
	if err != nil {
		return err
	}
	go func() { _ = deliver.Run(ctx) }()
	return newProducer(p, r).serve(r.Address)
}

type producer[T any] struct {
	*place[T]
	webhooks string // the URL of the consumer's
	voice    stage.Voice
}

func newProducer[T any](p *place[T], r role) *producer[T] {
	return &producer[T]{p, r.Consumer, "producer"}
}

// handler has three routes. Each creates or reverses something once per key, and sends the consumer a webhook
// about it.
func (p *producer[T]) handler() http.Handler {
	// One client calls this service, so its keys are shared. A service with several customers uses server.Principal.
	once := server.Middleware(p.records, server.Required(), server.SharedKeys(), server.Transactional[T]())
	mux := http.NewServeMux()
	mux.Handle("POST /payments", once(p.apply("payment")))
	mux.Handle("POST /refunds", once(p.apply("refund")))
	mux.Handle("POST /voids", once(p.apply("void")))
	return mux
}

// apply writes the effect and its event in the request's transaction, which commits with this handler's response.
// Never is one of the three there without the others.
func (p *producer[T]) apply(kind string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		tx, _ := server.Tx[T](ctx)
		var in request
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, "the body is not JSON", http.StatusBadRequest)
			return
		}
		e, err := operation(ctx, tx, p.books,
			entry{Kind: kind, Key: server.Key(ctx), Reference: in.Reference, Payment: in.Payment, Amount: in.Amount})
		if errors.Is(err, errRefused) {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity) // rolled back, and the refusal is on record
			return
		}
		if err == nil {
			err = p.announce(ctx, tx, e)
		}
		if err != nil {
			// rolled back: the retry runs this again
			http.Error(w, "the ledger can't be written", http.StatusServiceUnavailable)
			return
		}
		p.voice.Say("%s of %s, its record and its event: one transaction", e.ID, cents(e.Amount))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(receipt{ID: e.ID, Amount: e.Amount})
	})
}

// announce puts the webhook into the outbox. Those of one payment arrive in the order in which they were made.
func (p *producer[T]) announce(ctx context.Context, tx T, e entry) error {
	kind := e.Kind + ".created"
	body, err := json.Marshal(notice{
		Type: kind, Reference: e.Reference, ID: e.ID, Kind: e.Kind, Payment: e.Payment, Amount: e.Amount,
	})
	if err != nil {
		return err
	}
	_, err = p.enqueue(ctx, tx, outbox.Event{
		ID:          eventID(e.ID),
		Type:        kind,
		Destination: p.webhooks,
		OrderingKey: e.Payment,
		Header:      http.Header{"Content-Type": {"application/json"}},
		Payload:     body,
	})
	return err
}

// eventID returns the ID of an entry's event. It is also the webhook-id and the Idempotency-Key of each delivery.
func eventID(id string) string { return "ev_" + id }

// serve runs until the process is killed.
func (p *producer[T]) serve(address string) error {
	stage.On("entries", func([]string) (any, error) { return p.books.entries(context.Background()) })
	stage.On("outbox", func([]string) (any, error) { return p.queue.Stats(context.Background()) })
	return stage.Serve(address, p.voice, p.handler())
}
