package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/webhook"
)

// newReceiver returns the handler of a bank's webhooks. It verifies each delivery and enters each event once. A sender
// that retries delivers an event more than once. During a rotation secrets holds the new and the old one.
func newReceiver(st *boltstore.Store, secrets ...webhook.Secret) (http.Handler, error) {
	verifier, err := webhook.NewVerifier(secrets)
	if err != nil {
		return nil, err
	}
	events, err := inbox.NewTransactional(st)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /webhooks/bank", verifier.Handler(events.Handler(inbox.Delivered("bank"), enterRefund)))
	return mux, nil
}

// enterRefund writes through the inbox's transaction. It commits with the mark that the event is handled. An error
// rolls both back, and the sender delivers the event again.
func enterRefund(_ context.Context, tx *boltstore.Tx, ev inbox.Event) error {
	var in refund
	if err := json.Unmarshal(ev.Payload, &in); err != nil {
		return inbox.Reject(err) // no retry can mend it: the event becomes a dead letter
	}
	if in.ID == "" {
		return inbox.Reject(errors.New("the refund has no id"))
	}
	ledger, err := tx.CreateBucketIfNotExists([]byte("ledger"))
	if err != nil {
		return err
	}
	return ledger.Put([]byte(in.ID), ev.Payload)
}
