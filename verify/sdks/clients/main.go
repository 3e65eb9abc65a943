// Command clients makes one call with a public HTTP client, for redo client-check:
//
//	redo client-check -- clients stripe-go
//
// Its contract is that of redo client-check --help. See docs/clients.md for the results.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stripe/stripe-go/v85"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store/boltstore"
)

var (
	url       = os.Getenv("REDO_URL")
	base      = os.Getenv("REDO_BASE_URL")
	operation = os.Getenv("REDO_OPERATION")
)

const (
	payload = `{"amount":1000}`
	header  = "Idempotency-Key"
)

// calls has a call for each client. "given key" means that the caller sets the key.
var calls = map[string]func(context.Context) error{
	"net-http":      netHTTP,
	"retryablehttp": retryable,
	"redo":          safely,
	"stripe-go":     func(ctx context.Context) error { return stripeCall(ctx, false) },
	"stripe-go-key": func(ctx context.Context) error { return stripeCall(ctx, true) },
	"openai-go":     func(ctx context.Context) error { return openaiCall(ctx) },
	"openai-go-key": func(ctx context.Context) error { return openaiCall(ctx, option.WithHeader(header, operation)) },
	"anthropic":     func(ctx context.Context) error { return anthropicCall(ctx) },
	"anthropic-key": func(ctx context.Context) error {
		return anthropicCall(ctx, anthropicoption.WithHeader(header, operation))
	},
}

func main() {
	if len(os.Args) != 2 || calls[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: clients NAME, one of", slices.Sorted(maps.Keys(calls)))
		os.Exit(2)
	}
	if err := calls[os.Args[1]](context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// read returns an error unless the response is a whole 2xx with JSON.
func read(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	var order struct{ ID string }
	return json.Unmarshal(body, &order)
}

func netHTTP(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(payload)))
	if err != nil {
		return err
	}
	req.Header.Set(header, operation)
	req.Header.Set("Content-Type", "application/json")
	return read(http.DefaultClient.Do(req))
}

func retryable(ctx context.Context) error {
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, url, []byte(payload))
	if err != nil {
		return err
	}
	req.Header.Set(header, operation)
	req.Header.Set("Content-Type", "application/json")
	client := retryablehttp.NewClient()
	client.Logger = nil
	return read(client.Do(req))
}

func safely(ctx context.Context) error {
	st, err := boltstore.Open(filepath.Join(os.Getenv("REDO_DIR"), "calls.redo"))
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	client, err := redo.New(redo.WithStore(st))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ctx = redo.WithOperation(ctx, operation)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(payload)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return read(client.Do(req))
}

func stripeCall(ctx context.Context, given bool) error {
	sc := stripe.NewClient("sk_test_redo", stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String(base), EnableTelemetry: stripe.Bool(false),
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
	params := &stripe.CustomerCreateParams{Description: stripe.String("redo")}
	if given {
		params.SetIdempotencyKey(operation)
	}
	_, err := sc.V1Customers.Create(ctx, params)
	return err
}

func openaiCall(ctx context.Context, opts ...option.RequestOption) error {
	client := openai.NewClient(append(opts, option.WithAPIKey("sk-redo"), option.WithBaseURL(base))...)
	_, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model: "gpt-redo", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("redo")},
	})
	return err
}

func anthropicCall(ctx context.Context, opts ...anthropicoption.RequestOption) error {
	opts = append(opts, anthropicoption.WithAPIKey("sk-redo"), anthropicoption.WithBaseURL(base),
		anthropicoption.WithRequestTimeout(time.Minute))
	client := anthropic.NewClient(opts...)
	_, err := client.Messages.New(ctx, anthropic.MessageNewParams{
		Model: "claude-redo", MaxTokens: 1,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("redo"))},
	})
	return err
}
