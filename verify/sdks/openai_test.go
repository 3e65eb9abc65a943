package sdks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// openaiSDK creates a chat completion. openai-go sets no key.
var openaiSDK = sdk{
	name: "openai-go",
	call: func(ctx context.Context, to target) (string, error) {
		client := openaiClient(to)
		completion, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
			Model:    "gpt-redo",
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(to.token)},
		})
		if err != nil {
			return "", err
		}
		return completion.ID, nil
	},
	key: keyHeader("Idempotency-Key"),
	respond: func(id string, _ *http.Request, _ []byte) (string, string) {
		return "application/json", fmt.Sprintf(`{"id":%q,"object":"chat.completion","choices":[]}`, id)
	},
	retries: 2,
	keyless: true,
}

// uploadSDK uploads a file. openai-go makes a new multipart boundary for each call, so that the bodies of two calls of
// the same code differ. WithFingerprint compares their parts. The stored body is then sent again, with its boundary.
var uploadSDK = sdk{
	name: "openai-go, upload",
	call: func(ctx context.Context, to target) (string, error) {
		client := openaiClient(to)
		file, err := client.Files.New(ctx, openai.FileNewParams{
			File:    openai.File(strings.NewReader(to.token), "orders.txt", "text/plain"),
			Purpose: openai.FilePurposeUserData,
		})
		if err != nil {
			return "", err
		}
		return file.ID, nil
	},
	options: []redo.Option{redo.WithFingerprint(partsOf)},
	key:     keyHeader("Idempotency-Key"),
	respond: func(id string, _ *http.Request, _ []byte) (string, string) {
		return "application/json", fmt.Sprintf(`{"id":%q,"object":"file"}`, id)
	},
	retries: 2,
	keyless: true,
	varies:  true,
}

func openaiClient(to target) openai.Client {
	opts := []option.RequestOption{
		option.WithAPIKey("sk-redo"), option.WithBaseURL(to.url), option.WithHTTPClient(to.http),
	}
	if !to.retries {
		opts = append(opts, option.WithMaxRetries(0))
	}
	if to.limit > 0 {
		opts = append(opts, option.WithRequestTimeout(to.limit))
	}
	return openai.NewClient(opts...)
}

// partsOf is a redo.FingerprintFunc. It returns the parts of a multipart body without the boundary between them, and
// any other body as it is.
func partsOf(req *http.Request, body io.Reader) ([]byte, error) {
	mediaType, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" {
		return io.ReadAll(body)
	}
	var parts []byte
	for r := multipart.NewReader(body, params["boundary"]); ; {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		parts = fmt.Appendf(parts, "%q %q %q\n", part.Header["Content-Disposition"], part.Header["Content-Type"],
			content)
	}
}

// The twin of uploadSDK: without WithFingerprint the second call is another payload, and is refused before it is sent.
func TestUploadWithoutAFingerprintOfItsPartsIsRefused(t *testing.T) {
	p := newProvider(t, uploadSDK, lost)
	st := openStore(t)
	ctx := uploadSDK.named(t.Context())
	_, err := uploadSDK.run(ctx, connect(t, redo.WithRetry(once), redo.WithStore(st)), p.URL, false)
	require.Error(t, err)
	_, err = uploadSDK.run(ctx, connect(t, redo.WithRetry(once), redo.WithStore(st)), p.URL, false)
	require.Equal(t, taxonomy.PayloadMismatch, redo.CodeOf(err))
	require.Len(t, p.requests(), 1)
	require.Equal(t, 1, p.effects())
}

// A time limit of the SDK's ends the call, but not the operation: the next call continues it.
func TestTimeLimitOfTheSDKLeavesTheOperationPending(t *testing.T) {
	p := newProvider(t, openaiSDK, slow(time.Minute))
	ctx, report := redo.WithReport(openaiSDK.named(t.Context()))
	c := openaiSDK.client(t, quick, redo.WithStore(openStore(t)))
	to := target{http: httpOver(c), url: p.URL, token: "token", limit: 100 * time.Millisecond}
	_, err := openaiSDK.call(ctx, to)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, taxonomy.CallerDeadline, report.Err().Code)
	require.Equal(t, redo.EffectUnknown, report.Err().Effect)
	require.Len(t, p.requests(), 1)

	to.limit = 0
	id, err := openaiSDK.call(ctx, to)
	require.NoError(t, err)
	require.Equal(t, "obj_1", id)
	require.Equal(t, 1, p.effects())
	require.Nil(t, report.Err())
}
