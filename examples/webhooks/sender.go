package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/webhook"
)

// A sender makes refunds, and sends a webhook for each. A refund, the record of its request and its event are one
// transaction. So an event is sent if and only if its refund is made. pgoutbox does the same over Postgres.
type sender struct {
	st    *boltstore.Store
	queue *boltoutbox.Queue
	to    string // the receiver's URL
}

func newSender(ctx context.Context, st *boltstore.Store, to string) (*sender, error) {
	queue, err := boltoutbox.New(ctx, st)
	if err != nil {
		return nil, err
	}
	return &sender{st, queue, to}, nil
}

func (s *sender) handler() (http.Handler, error) {
	once, err := server.New(s.st, server.Required(), server.Principal(customer), server.Transactional[*boltstore.Tx]())
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", once(http.HandlerFunc(s.createRefund)))
	return mux, nil
}

// customer returns the authenticated caller. A real service checks the password before the middleware runs.
func customer(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

// A refund is a row of both ledgers, and the webhook's payload. The amount is in cents.
type refund struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

func (s *sender) createRefund(w http.ResponseWriter, r *http.Request) {
	var made refund
	if err := json.NewDecoder(r.Body).Decode(&made); err != nil || made.Amount <= 0 {
		http.Error(w, "the amount must be positive", http.StatusUnprocessableEntity)
		return
	}
	tx, ok := server.Tx[*boltstore.Tx](r.Context())
	if !ok {
		http.Error(w, "the middleware opens no transaction", http.StatusInternalServerError)
		return
	}
	if err := s.write(r.Context(), tx, &made); err != nil {
		http.Error(w, "try again", http.StatusServiceUnavailable) // rolls back: the retry runs this again
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated) // commits the refund, its event and this response
	_ = json.NewEncoder(w).Encode(made)
}

// write enters the refund into the ledger and its event into the outbox.
func (s *sender) write(ctx context.Context, tx *boltstore.Tx, made *refund) error {
	ledger, err := tx.CreateBucketIfNotExists([]byte("ledger"))
	if err != nil {
		return err
	}
	n, err := ledger.NextSequence()
	if err != nil {
		return err
	}
	made.ID = fmt.Sprintf("re_%d", n)
	payload, err := json.Marshal(made)
	if err != nil {
		return err
	}
	_, err = s.queue.Enqueue(ctx, tx, outbox.Event{
		ID: "refund-" + made.ID + "-created", Type: "refund.created", Destination: s.to, Payload: payload,
	})
	return errors.Join(err, ledger.Put([]byte(made.ID), payload))
}

// relay sends the outbox's events until ctx ends. network is nil in production: it then refuses addresses that lead
// into the sender's own network.
func (s *sender) relay(
	ctx context.Context, secret webhook.Secret, network http.RoundTripper, opts ...outbox.Option,
) error {
	signer, err := webhook.NewSigner([]webhook.Secret{secret})
	if err != nil {
		return err
	}
	client, err := redo.New(redo.WithTransport(signer.Transport(network)))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	publisher, err := outbox.HTTP(client)
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(s.queue, publisher, opts...)
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}
