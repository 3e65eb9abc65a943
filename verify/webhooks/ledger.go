package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// An entry is one effect: money that moved. The consumer makes one entry for each webhook.
type entry struct {
	Number    int    `json:"number"`
	ID        string `json:"id"`
	Kind      string `json:"kind"`      // payment, refund or void
	Key       string `json:"key"`       // the Idempotency-Key that it was made for: of the request, or of the webhook
	Reference string `json:"reference"` // the client's name for it
	Payment   string `json:"payment"`
	Amount    int    `json:"amount"`             // in cents
	Verified  string `json:"verified,omitempty"` // the name of the secret that the webhook was verified with
}

// A ledger is the producer's or the consumer's list of effects, written in transactions of its engine. It notes keys
// and refuses none, so that it can bear witness.
type ledger[T any] interface {
	// next returns a number that no other entry has.
	next(ctx context.Context, tx T) (int, error)
	// left returns the rest of a payment, and locks it until the transaction is over.
	left(ctx context.Context, tx T, payment string) (int, error)
	enter(ctx context.Context, tx T, e entry) error
	entries(ctx context.Context) ([]entry, error)
}

// errRefused is the refusal of a request that the business does not allow.
var errRefused = errors.New("refused")

// operation is the business: it writes a payment, a refund or a void into the ledger, or refuses.
func operation[T any](ctx context.Context, tx T, books ledger[T], e entry) (entry, error) {
	var err error
	if e.Number, err = books.next(ctx, tx); err != nil {
		return entry{}, err
	}
	e.ID = fmt.Sprintf("%s_%d", e.Kind, e.Number)
	if e.Kind == "payment" {
		e.Payment = e.ID
		if e.Amount <= 0 {
			return entry{}, fmt.Errorf("%w: a payment of %s", errRefused, cents(e.Amount))
		}
		return e, books.enter(ctx, tx, e)
	}
	left, err := books.left(ctx, tx, e.Payment)
	if err != nil {
		return entry{}, err
	}
	if e.Kind == "void" {
		e.Amount = left // the rest of the payment
	}
	if e.Amount <= 0 || e.Amount > left {
		return entry{}, fmt.Errorf("%w: a %s of %s, %s are left of %s",
			errRefused, e.Kind, cents(e.Amount), cents(left), e.Payment)
	}
	return e, books.enter(ctx, tx, e)
}

// change is the amount that an entry adds to the rest of its payment.
func (e entry) change() int {
	if e.Kind == "payment" {
		return e.Amount
	}
	return -e.Amount
}

func cents(n int) string { return fmt.Sprintf("%d.%02d", n/100, n%100) }

// kindOf is the kind of an operation by its name, such as refund:1138:shoes.
func kindOf(name string) string {
	kind, _, _ := strings.Cut(name, ":")
	return kind
}
