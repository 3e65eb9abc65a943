package sdks

import (
	"context"
	"fmt"
	"net/http"

	"golang.org/x/oauth2"
	"google.golang.org/api/batch/v1"
	"google.golang.org/api/option"

	"github.com/redo-go/redo"
)

const googleToken = "/token"

// googleSDK creates a batch job. The key is the request ID in the query (https://google.aip.dev/155), which the caller
// gives. The SDK refreshes its access token on the job's own context first.
var googleSDK = sdk{
	name: "google-api-go-client",
	call: func(ctx context.Context, to target) (string, error) {
		ctx = context.WithValue(ctx, oauth2.HTTPClient, to.http)
		endpoint := oauth2.Endpoint{TokenURL: to.url + googleToken}
		auth := &oauth2.Config{ClientID: "id", ClientSecret: "secret", Endpoint: endpoint}
		service, err := batch.NewService(ctx, option.WithEndpoint(to.url),
			option.WithHTTPClient(auth.Client(ctx, &oauth2.Token{RefreshToken: "refresh"})))
		if err != nil {
			return "", err
		}
		job, err := service.Projects.Locations.Jobs.Create("projects/redo/locations/europe-west3",
			&batch.Job{Priority: 1}).
			RequestId(to.token).Context(ctx).Do()
		if err != nil {
			return "", err
		}
		return job.Name, nil
	},
	options: []redo.Option{redo.WithProfile(redo.Profile{Name: "google", KeyInBody: true})},
	match:   func(r *http.Request) bool { return r.URL.Path != googleToken },
	key:     func(r *http.Request, _ []byte) string { return r.URL.Query().Get("requestId") },
	respond: func(id string, _ *http.Request, _ []byte) (string, string) {
		return "application/json", fmt.Sprintf(`{"name":%q}`, id)
	},
	aside: tokenEndpoint(googleToken),
}
