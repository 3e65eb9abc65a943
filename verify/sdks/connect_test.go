package sdks

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	connectrpc "connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/redo-go/redo"
)

// A failed call of gRPC-Web has the HTTP status 200, and so has a failed stream of Connect. The common cases do not
// run with connect-go: it replaces the error of a missing response by its own.
func TestFailedCallOfConnectGoIsSentAgain(t *testing.T) {
	type message = wrapperspb.StringValue
	for name, opts := range map[string][]connectrpc.ClientOption{
		"gRPC-Web": {connectrpc.WithGRPCWeb()}, "Connect": nil,
		"gRPC-Web, not compressed": {connectrpc.WithGRPCWeb(), connectrpc.WithAcceptCompression("gzip", nil, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			srv := httptest.NewServer(connectrpc.NewServerStreamHandler("/refunds.Refunds/Create",
				func(_ context.Context, _ *connectrpc.Request[message], to *connectrpc.ServerStream[message]) error {
					if calls.Add(1) == 1 {
						return connectrpc.NewError(connectrpc.CodeFailedPrecondition, errors.New("the database is down"))
					}
					return to.Send(wrapperspb.String("rf_1"))
				}))
			t.Cleanup(srv.Close)
			over := httpOver(connect(t, redo.WithRetry(once), redo.WithStore(openStore(t))))
			sdk := connectrpc.NewClient[message, message](over, srv.URL+"/refunds.Refunds/Create", opts...)
			call := func() (string, error) {
				ctx := redo.WithOperation(t.Context(), operation)
				from, err := sdk.CallServerStream(ctx, connectrpc.NewRequest(wrapperspb.String(operation)))
				require.NoError(t, err)
				var id string
				for from.Receive() {
					id = from.Msg().GetValue()
				}
				err = from.Err()
				require.NoError(t, from.Close())
				return id, err
			}
			_, err := call()
			require.Equal(t, connectrpc.CodeFailedPrecondition, connectrpc.CodeOf(err))
			for range 2 { // from the server, and then from the store
				id, err := call()
				require.NoError(t, err)
				require.Equal(t, "rf_1", id)
			}
			require.EqualValues(t, 2, calls.Load())
		})
	}
}
