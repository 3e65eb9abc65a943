package sdks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
)

// anthropicSDK creates a message. anthropic-sdk-go sets no key.
var anthropicSDK = sdk{
	name: "anthropic-sdk-go",
	call: func(ctx context.Context, to target) (string, error) {
		client := anthropicClient(to)
		message, err := client.Messages.New(ctx, prompt(to))
		if err != nil {
			return "", err
		}
		return message.ID, nil
	},
	key: keyHeader("Idempotency-Key"),
	respond: func(id string, _ *http.Request, _ []byte) (string, string) {
		return "application/json", fmt.Sprintf(`{"id":%q,"type":"message","role":"assistant","content":[]}`, id)
	},
	retries: 2,
	keyless: true,
}

// streamSDK creates a message and reads it as an event stream. The store keeps the events when the SDK has read them
// to the end.
var streamSDK = sdk{
	name: "anthropic-sdk-go, stream",
	call: func(ctx context.Context, to target) (string, error) {
		client := anthropicClient(to)
		stream := client.Messages.NewStreaming(ctx, prompt(to))
		defer func() { _ = stream.Close() }()
		var message anthropic.Message
		for stream.Next() {
			if err := message.Accumulate(stream.Current()); err != nil {
				return "", err
			}
		}
		if err := stream.Err(); err != nil {
			return "", err
		}
		if message.StopReason == "" {
			return "", errors.New("the stream has no end")
		}
		return message.ID, nil
	},
	key: keyHeader("Idempotency-Key"),
	respond: func(id string, _ *http.Request, _ []byte) (string, string) {
		return "text/event-stream", strings.Join([]string{
			"event: message_start",
			fmt.Sprintf(`data: {"type":"message_start","message":{"id":%q,"type":"message","role":"assistant"}}`, id),
			"",
			"event: message_delta",
			`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`,
			"",
			"event: message_stop",
			`data: {"type":"message_stop"}`,
			"", "",
		}, "\n")
	},
	retries: 2,
	keyless: true,
	streams: true,
}

func anthropicClient(to target) anthropic.Client {
	opts := []option.RequestOption{
		option.WithoutEnvironmentDefaults(), option.WithAPIKey("sk-ant-redo"),
		option.WithBaseURL(to.url), option.WithHTTPClient(to.http),
	}
	if !to.retries {
		opts = append(opts, option.WithMaxRetries(0))
	}
	return anthropic.NewClient(opts...)
}

func prompt(to target) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: "claude-redo", MaxTokens: 16,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(to.token))},
	}
}

// A stream that breaks off is the SDK's error, since the SDK has read a part of it. The next call of the operation
// sends the request again under the same key.
func TestStreamThatBreaksOffIsContinuedByTheNextCall(t *testing.T) {
	p := newProvider(t, streamSDK, truncated)
	st := openStore(t)
	_, err := streamSDK.run(streamSDK.named(t.Context()), streamSDK.client(t, quick, redo.WithStore(st)), p.URL, false)
	require.Error(t, err)
	id, err := streamSDK.run(streamSDK.named(t.Context()), streamSDK.client(t, quick, redo.WithStore(st)), p.URL, false)
	require.NoError(t, err)
	require.Equal(t, "obj_1", id)
	require.Equal(t, 1, p.effects())
	keys := p.keys()
	require.Len(t, keys, 2)
	require.Equal(t, keys[0], keys[1])
}
