package sdks

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/plutov/paypal/v4"

	"github.com/redo-go/redo"
)

const paypalToken = "/v1/oauth2/token"

// paypalSDK creates an order. The SDK fetches an access token on the order's own context first. WithOperationFor keeps
// the name from that request.
var paypalSDK = sdk{
	name: "plutov/paypal",
	call: func(ctx context.Context, to target) (string, error) {
		client, err := paypal.NewClient("id", "secret", to.url)
		if err != nil {
			return "", err
		}
		client.SetHTTPClient(to.http)
		order, err := client.CreateOrder(ctx, paypal.OrderIntentCapture, []paypal.PurchaseUnitRequest{
			{ReferenceID: to.token, Amount: &paypal.PurchaseUnitAmount{Currency: "EUR", Value: "10.00"}},
		}, nil, nil)
		if err != nil {
			return "", err
		}
		return order.ID, nil
	},
	options: []redo.Option{redo.WithProfile(redo.Profile{Name: "paypal", Header: paypalKey})},
	match:   func(r *http.Request) bool { return r.URL.Path != paypalToken },
	key:     keyHeader(paypalKey),
	respond: func(id string, _ *http.Request, _ []byte) (string, string) {
		return "application/json", fmt.Sprintf(`{"id":%q,"status":"CREATED"}`, id)
	},
	aside:   tokenEndpoint(paypalToken),
	keyless: true,
}

const paypalKey = "PayPal-Request-Id"

// tokenEndpoint serves OAuth tokens at the path.
func tokenEndpoint(path string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"t0ken","token_type":"Bearer","expires_in":3600}`)
		return true
	}
}
