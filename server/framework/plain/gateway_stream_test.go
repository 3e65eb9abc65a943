package plain

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// grpc-gateway sends the error of a stream in the body, after the status 200.
func TestAStreamOfGRPCGatewayThatFailsIsTheHandlersToJudge(t *testing.T) {
	judge := runtime.WithStreamErrorHandler(func(ctx context.Context, err error) *status.Status {
		server.Unknown(ctx)
		return runtime.DefaultStreamErrorHandler(ctx, err)
	})
	for name, c := range map[string]struct {
		options []runtime.ServeMuxOption
		runs    int
	}{
		"without a judge it is replayed": {nil, 1},
		"with a judge a retry runs it":   {[]runtime.ServeMuxOption{judge}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			mw, err := server.New(memstore.New(), server.SharedKeys())
			if err != nil {
				t.Fatal(err)
			}
			gateway := runtime.NewServeMux(append(c.options, runtime.WithMiddlewares(keyed(mw)))...)
			runs := 0
			stream := func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
				runs++
				messages := 0
				ctx := runtime.NewServerMetadataContext(r.Context(), runtime.ServerMetadata{})
				runtime.ForwardResponseStream(ctx, gateway, &runtime.JSONPb{}, w, r, func() (proto.Message, error) {
					if messages++; messages > 1 {
						return nil, errors.New("the stream broke off")
					}
					return wrapperspb.String("shipped"), nil
				})
			}
			if err := gateway.HandlePath(http.MethodPost, "/shipments", stream); err != nil {
				t.Fatal(err)
			}
			srv := httptest.NewServer(gateway)
			t.Cleanup(srv.Close)
			for range 2 {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/shipments", strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Idempotency-Key", "k1")
				resp, err := srv.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(b), "the stream broke off") {
					t.Fatalf("%d %s %v", resp.StatusCode, b, err)
				}
			}
			if runs != c.runs {
				t.Errorf("the handler ran %d times, want %d", runs, c.runs)
			}
		})
	}
}
