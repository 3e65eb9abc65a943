package redoconnect_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/redo-go/redo/server"
	redoconnect "github.com/redo-go/redo/server/framework/connect"
	"github.com/redo-go/redo/store/memstore"
)

// A repeated call gets the first one's response, and the procedure runs once.
func Example() {
	const service, procedure = "/payment.v1.PaymentService/", "/payment.v1.PaymentService/Charge"
	type text = wrapperspb.StringValue
	handler := connect.NewUnaryHandler(procedure, // generated code has a handler for the whole service
		func(context.Context, *connect.Request[text]) (*connect.Response[text], error) {
			fmt.Println("charging")
			return connect.NewResponse(wrapperspb.String("charged")), nil
		})
	mw, err := server.New(memstore.New(), server.Required(), server.SharedKeys(), server.Refusal(redoconnect.Refusal()))
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+procedure, redoconnect.Handler(mw, handler))
	mux.Handle(service, handler)
	srv := httptest.NewServer(mux)
	defer srv.Close()

	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](srv.Client(), srv.URL+procedure)
	for range 2 {
		req := connect.NewRequest(wrapperspb.String("1000 cents"))
		req.Header().Set("Idempotency-Key", "charge-7")
		resp, err := client.CallUnary(context.Background(), req)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(resp.Msg.Value, resp.Header().Get("Idempotency-Status"))
	}
	// Output:
	// charging
	// charged stored
	// charged replayed
}
