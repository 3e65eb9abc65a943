package sdks

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/razorpay/razorpay-go/requests"
	"github.com/razorpay/razorpay-go/resources"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
)

// onContext sends the requests of an SDK whose methods take no context.
type onContext struct {
	ctx  context.Context
	next http.RoundTripper
}

func (o onContext) RoundTrip(req *http.Request) (*http.Response, error) {
	return o.next.RoundTrip(req.WithContext(o.ctx))
}

// razorpaySDK refunds a payment. The methods of razorpay-go take no context, so each operation has a transport. The
// SDK's own constructor writes a package variable, and concurrent calls would race.
var razorpaySDK = sdk{
	name: "razorpay-go",
	call: func(ctx context.Context, to target) (string, error) {
		payments := resources.Payment{Request: &requests.Request{
			BaseURL: to.url, HTTPClient: &http.Client{Transport: onContext{ctx, to.http.Transport}},
		}}
		refund, err := payments.Refund("pay_1138", 1000, map[string]any{"receipt": to.token}, nil)
		if err != nil {
			return "", err
		}
		id, _ := refund["id"].(string)
		return id, nil
	},
	options: []redo.Option{redo.WithProfile(redo.Profile{Name: "razorpay", Header: razorpayKey})},
	key:     keyHeader(razorpayKey),
	respond: func(id string, _ *http.Request, _ []byte) (string, string) {
		return "application/json", fmt.Sprintf(`{"id":%q,"entity":"refund"}`, id)
	},
	keyless: true,
}

const razorpayKey = "X-Refund-Idempotency"

func TestTimeoutOfTheHTTPClientHoldsOnAContextOfItsOwn(t *testing.T) {
	p := newProvider(t, razorpaySDK, held)
	c := razorpaySDK.client(t, once, redo.WithStore(openStore(t)))
	ctx, report := redo.WithReport(razorpaySDK.named(context.Background()))
	payments := resources.Payment{Request: &requests.Request{
		BaseURL:    p.URL,
		HTTPClient: &http.Client{Transport: onContext{ctx, c.Transport()}, Timeout: 100 * time.Millisecond},
	}}
	_, err := payments.Refund("pay_1138", 1000, nil, nil)
	require.True(t, os.IsTimeout(err), err)
	require.Equal(t, redo.EffectUnknown, report.Err().Effect)
	require.True(t, redo.SafeToRetry(report.Err()))
}
