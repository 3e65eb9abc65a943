package sdks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-resty/resty/v2"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// restySDK makes a refund with resty v2, a client that callers of a JSON API write theirs with.
var restySDK = sdk{
	name: "resty",
	call: func(ctx context.Context, to target) (string, error) {
		c := resty.NewWithClient(to.http).SetBaseURL(to.url).SetHeader("Accept", "application/json")
		return restyRefund(ctx, c, to.token)
	},
	key: keyHeader("Idempotency-Key"),
	respond: func(id string, _ *http.Request, _ []byte) (string, string) {
		return "application/json", fmt.Sprintf(`{"id":%q}`, id)
	},
	keyless: true,
}

func restyRefund(ctx context.Context, c *resty.Client, reference string) (string, error) {
	var refund struct{ ID string }
	body := map[string]any{"amount": 1000, "reference": reference}
	resp, err := c.R().SetContext(ctx).SetBody(body).SetResult(&refund).Post("/refunds")
	if err == nil && resp.IsError() {
		err = errors.New(resp.Status())
	}
	return refund.ID, err
}

// resty v2 adds an Accept field from its first retry on, if the caller has set none. That is another request under the
// name: it is not sent.
func TestAnSDKsRetryWithAnotherFieldIsRefused(t *testing.T) {
	for accept, want := range map[string]taxonomy.Code{"": taxonomy.PayloadMismatch, "application/json": ""} {
		p := newProvider(t, restySDK, lost)
		c := restySDK.client(t, once, redo.WithStore(openStore(t)))
		client := resty.NewWithClient(httpOver(c)).SetBaseURL(p.URL).SetRetryCount(1).SetRetryWaitTime(time.Millisecond)
		if accept != "" {
			client.SetHeader("Accept", accept)
		}
		ctx, report := redo.WithReport(restySDK.named(context.Background()))
		_, err := restyRefund(ctx, client, operation)
		require.Equal(t, 1, p.effects())
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.Error(t, err)
		require.Equal(t, want, report.Err().Code)
	}
}
