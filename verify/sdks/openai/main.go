// Openai requests a chat completion through openai-go over redo. The first response is lost, and the request is
// sent again under the same key. The same code after a crash or a restart gets the stored completion: it is not
// paid again.
//
//	$ go run ./verify/sdks/openai
//	Three.
//	Three.
//	the API received 2 requests and made 1 completion
//
// openai-go sends no key, so redo adds one. The key helps where the API honours it, such as behind a gateway with
// redo's middleware. At another API a lost response may be paid twice, and a stored one never.
//
// With the URL of an API as its argument it uses the key in OPENAI_API_KEY and the model in OPENAI_MODEL.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store/boltstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := demo
	if len(os.Args) > 1 {
		run = func(ctx context.Context) error {
			return ask(ctx, os.Args[1], os.Getenv("OPENAI_API_KEY"), os.Getenv("OPENAI_MODEL"), "completions.redo")
		}
	}
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// ask sends one question. Calling it again returns the same completion.
func ask(ctx context.Context, url, key, model, file string) error {
	ops, err := boltstore.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = ops.Close() }()
	// Under an SDK the time limits are the SDK's: option.WithRequestTimeout limits a call.
	client, err := redo.New(redo.WithStore(ops))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	sdk := openai.NewClient(option.WithBaseURL(url), option.WithAPIKey(key),
		option.WithHTTPClient(&http.Client{Transport: client.Transport()}),
		option.WithMaxRetries(0), // one layer retries
	)

	ctx, report := redo.WithReport(redo.WithOperation(ctx, "completion:report-2026-11"))
	out, err := sdk.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model: model,
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.UserMessage("How many refunds were there in November?"),
		},
	})
	if e := report.Err(); e != nil {
		return fmt.Errorf("effect %s, safe to run again: %t: %w", e.Effect, redo.SafeToRetry(e), errors.Join(e, err))
	}
	if err != nil {
		return err
	}
	if len(out.Choices) == 0 {
		return errors.New("the completion is empty")
	}
	fmt.Println(out.Choices[0].Message.Content)
	return nil
}

// demo runs ask twice against a local stand-in for the API, which loses its first response.
func demo(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	const completion = `{"object":"chat.completion","choices":[{"message":{"role":"assistant","content":"Three."}}]}`
	api, err := servertest.Serve(l, log.Printf, servertest.ScriptNext(servertest.ResetAfterEffect()),
		servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := servertest.Effect(r.Context()); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, completion)
		})))
	if err != nil {
		return err
	}
	defer api.Close()
	dir, err := os.MkdirTemp("", "redo-openai-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for range 2 {
		if err := ask(ctx, api.URL, "sk-redo", "gpt-redo", filepath.Join(dir, "completions.redo")); err != nil {
			return err
		}
	}
	fmt.Printf("the API received %d requests and made %d completion\n", len(api.Requests()), api.Ledger().Total())
	return nil
}
