package main

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/redo-go/redo/benchmarks/post"
)

// A peer is a way to send a POST. makesKey, bounds and retries are facts about the library alone. Its tests compare
// them with what a server sees.
type peer struct {
	name     string
	module   string // the library's module; empty for net/http and for redo
	makesKey bool   // each call gets a key; otherwise the measured caller makes a UUIDv7
	bounds   bool   // a call ends after post.Deadline; otherwise the measured caller sets a deadline
	retries  bool   // a 503 with a JSON error is retried
	unequal  bool   // it does more than the others, and is not measured beside them
	open     func(target) (sender, error)
	// effect returns the library's statement about the effect of a failed call: "not applied", "unknown" or
	// "applied". It is nil if the library makes none.
	effect func(error) string
}

// A target is the server of a peer, and the peer's settings.
type target struct {
	rt      http.RoundTripper
	url     string
	dir     string // for files
	patient bool   // the library's own delays between attempts; otherwise none
}

// A sender is an opened peer.
type sender struct {
	// send makes a call, and reads its response. A status other than 201 is an error. A nil key sets no header.
	send  func(ctx context.Context, payload []byte, key []string) error
	close func() error // nil if there is nothing to close
}

func (s sender) stop() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// peers holds all in the order of the tables.
var peers = []peer{
	{name: "http.Client", open: openStandard},
	{
		name: "go-retryablehttp Do", module: "github.com/hashicorp/go-retryablehttp", retries: true,
		open: openRetryable,
	},
	{
		name: "go-retryablehttp StandardClient", module: "github.com/hashicorp/go-retryablehttp", retries: true,
		open: openRetryableStandard,
	},
	{name: "failsafe-go", module: "github.com/failsafe-go/failsafe-go", retries: true, open: openFailsafe},
	{name: "rehttp", module: "github.com/PuerkitoBio/rehttp", retries: true, open: openRehttp},
	{name: "heimdall", module: "github.com/gojek/heimdall/v7", retries: true, open: openHeimdall},
	{name: "resty", module: "resty.dev/v3", retries: true, open: openResty},
	{name: "azcore", module: "github.com/Azure/azure-sdk-for-go/sdk/azcore", retries: true, open: openAzure},
	{name: "aws-sdk-go-v2 retryer", module: "github.com/aws/aws-sdk-go-v2", retries: true, open: openAWS},
	{name: "stripe-go", module: "github.com/stripe/stripe-go/v85", makesKey: true, open: openStripe},
	{name: byDo, makesKey: true, bounds: true, retries: true, open: openDo, effect: effectByRedo},
	{name: byTransport, makesKey: true, retries: true, open: openTransport, effect: effectByRedo},
	{
		name: "redo.Do over boltstore", makesKey: true, bounds: true, retries: true, unequal: true,
		open: openDurable, effect: effectByRedo,
	},
}

// measured makes a call of a peer with the same promises as all: a new key and a deadline.
func (p peer) measured(s sender) func(payload []byte) error {
	return func(payload []byte) error {
		var header []string
		if !p.makesKey {
			key, err := uuid.NewV7()
			if err != nil {
				return err
			}
			header = []string{key.String()}
		}
		ctx := context.Background()
		if !p.bounds {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, post.Deadline)
			defer cancel()
		}
		return s.send(ctx, payload, header)
	}
}

// sending returns a sender whose requests are made by net/http and sent with do.
func sending(to target, do func(*http.Request) (*http.Response, error)) sender {
	return sender{send: func(ctx context.Context, payload []byte, key []string) error {
		req, err := post.NewRequest(ctx, to.url, payload)
		if err != nil {
			return err
		}
		if key != nil {
			req.Header["Idempotency-Key"] = key
		}
		return post.Consume(do(req))
	}}
}

// A few libraries have no delays of their own. These are the ones of a patient target.
const (
	baseDelay = 100 * time.Millisecond
	mostDelay = 2 * time.Second
	retries   = 3 // for libraries whose default is none
)
