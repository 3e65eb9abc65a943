package redoconnect_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/redo-go/redo/server"
	redoconnect "github.com/redo-go/redo/server/framework/connect"
	"github.com/redo-go/redo/store/memstore"
)

type (
	// The request's value is the outcome that the test wants.
	request  = wrapperspb.StringValue
	response = wrapperspb.Int64Value
)

const procedure = "/payment.v1.PaymentService/Charge"

// A service counts its effects. Its response is their number.
type service struct {
	effects atomic.Int64
	entered chan struct{} // receives a value from a slow request
	release chan struct{} // lets it go on

	url  string
	http *http.Client
}

func (s *service) charge(_ context.Context, req *connect.Request[request]) (*connect.Response[response], error) {
	n := s.effects.Add(1)
	switch req.Msg.Value {
	case "invalid":
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("cents must be positive"))
	case "unavailable":
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("try later"))
	case "slow":
		s.entered <- struct{}{}
		<-s.release
	}
	return connect.NewResponse(wrapperspb.Int64(n)), nil
}

// serve starts the service behind wrap.
func serve(t *testing.T, wrap func(mw func(http.Handler) http.Handler, h http.Handler) http.Handler) *service {
	t.Helper()
	s := &service{entered: make(chan struct{}), release: make(chan struct{})}
	mw, err := server.New(memstore.New(), server.Required(), server.SharedKeys(), server.Refusal(redoconnect.Refusal()))
	require.NoError(t, err)
	handler := connect.NewUnaryHandler(procedure, s.charge)
	mux := http.NewServeMux()
	mux.Handle("POST "+procedure, wrap(mw, handler))
	srv := httptest.NewUnstartedServer(mux)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	s.url, s.http = srv.URL, srv.Client()
	return s
}

func right(mw func(http.Handler) http.Handler, h http.Handler) http.Handler {
	return redoconnect.Handler(mw, h)
}

func (s *service) call(
	t *testing.T,
	value, key string,
	opts ...connect.ClientOption,
) (*connect.Response[response], error) {
	t.Helper()
	c := connect.NewClient[request, response](s.http, s.url+procedure, opts...)
	req := connect.NewRequest(wrapperspb.String(value))
	if key != "" {
		req.Header().Set("Idempotency-Key", key)
	}
	return c.CallUnary(t.Context(), req)
}

var encodings = map[string][]connect.ClientOption{
	"protobuf": nil,
	"JSON":     {connect.WithProtoJSON()},
	"gzip":     {connect.WithSendGzip()},
}

func TestARepeatedCallIsReplayed(t *testing.T) {
	for name, opts := range encodings {
		t.Run(name, func(t *testing.T) {
			s := serve(t, right)
			for _, status := range []string{"stored", "replayed"} {
				resp, err := s.call(t, "ok", "k", opts...)
				require.NoError(t, err)
				require.EqualValues(t, 1, resp.Msg.Value)
				require.Equal(t, status, resp.Header().Get("Idempotency-Status"))
			}
			require.EqualValues(t, 1, s.effects.Load())
		})
	}
}

func TestATerminalErrorIsStoredAndATransientOneReleases(t *testing.T) {
	for value, want := range map[string]struct {
		code    connect.Code
		effects int64
	}{
		"invalid":     {connect.CodeInvalidArgument, 1},
		"unavailable": {connect.CodeUnavailable, 2},
	} {
		t.Run(value, func(t *testing.T) {
			s := serve(t, right)
			for range 2 {
				_, err := s.call(t, value, "k")
				require.Equal(t, want.code, connect.CodeOf(err), "%v", err)
			}
			require.Equal(t, want.effects, s.effects.Load())
		})
	}
}

func TestRefusalsAreConnectErrors(t *testing.T) {
	s := serve(t, right)
	code := func(err error, want connect.Code) string {
		t.Helper()
		require.Equal(t, want, connect.CodeOf(err), "%v", err)
		var e *connect.Error
		require.ErrorAs(t, err, &e)
		return e.Meta().Get(redoconnect.ErrorCode)
	}
	_, err := s.call(t, "ok", "")
	require.Equal(t, "VALIDATION.idempotency_key.missing", code(err, connect.CodeInvalidArgument))
	_, err = s.call(t, "ok", "k")
	require.NoError(t, err)
	_, err = s.call(t, "another", "k")
	require.Equal(t, "CONFLICT.idempotency.payload_mismatch", code(err, connect.CodeFailedPrecondition))
}

func TestADuplicateOfARunningCallIsAborted(t *testing.T) {
	s := serve(t, right)
	done := make(chan error, 1)
	go func() {
		_, err := s.call(t, "slow", "k")
		done <- err
	}()
	<-s.entered
	_, err := s.call(t, "slow", "k")
	close(s.release)
	require.Equal(t, connect.CodeAborted, connect.CodeOf(err), "%v", err)
	var e *connect.Error
	require.ErrorAs(t, err, &e)
	require.NotEmpty(t, e.Meta().Get("Retry-After"))
	require.NoError(t, <-done)
	require.EqualValues(t, 1, s.effects.Load())
}

func TestGRPCIsRefusedBeforeTheHandlerRuns(t *testing.T) {
	for name, protocol := range map[string]connect.ClientOption{
		"gRPC": connect.WithGRPC(), "gRPC-Web": connect.WithGRPCWeb(),
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, right)
			_, err := s.call(t, "ok", "k", protocol)
			require.Equal(t, connect.CodeUnimplemented, connect.CodeOf(err), "%v", err)
			require.Zero(t, s.effects.Load())
		})
	}
}

func TestTheCaseOfAMediaTypeMakesNoDifference(t *testing.T) {
	for media, want := range map[string]struct {
		record  string
		effects int64
	}{
		"Application/gRPC":                {"", 0},
		"application/GRPC+proto":          {"", 0},
		"APPLICATION/gRPC-Web":            {"", 0},
		" application/grpc":               {"", 0},
		"Application/Connect+JSON":        {"", 0},
		"Application/JSON":                {"stored", 1},
		"application/JSON; charset=UTF-8": {"stored", 1},
	} {
		t.Run(media, func(t *testing.T) {
			s := serve(t, right)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+procedure, strings.NewReader(`"ok"`))
			require.NoError(t, err)
			r.Header.Set("Content-Type", media)
			r.Header.Set("Idempotency-Key", "k")
			resp, err := s.http.Do(r)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want.record, resp.Header.Get("Idempotency-Status"))
			require.Equal(t, want.effects, s.effects.Load())
		})
	}
}

// The wiring that only seems to work: the record has no trailers, so that a gRPC client can't read the replay.
func TestAGRPCReplayWithoutTheAdapterIsNoSuccess(t *testing.T) {
	s := serve(t, func(mw func(http.Handler) http.Handler, h http.Handler) http.Handler { return mw(h) })
	_, err := s.call(t, "unavailable", "k", connect.WithGRPC())
	require.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), "%v", err)
	_, err = s.call(t, "unavailable", "k", connect.WithGRPC())
	require.Error(t, err)
	require.NotEqual(t, connect.CodeUnavailable, connect.CodeOf(err), "%v", err)
	require.EqualValues(t, 1, s.effects.Load(), "the failure was kept as a success")
}
