package readme

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/boltstore"
)

// likeRetryablehttp is the snippet of docs/from-retryablehttp.md.
func likeRetryablehttp(req *http.Request) error {
	client, err := redo.New(redo.WithRetry(redo.RetryPolicy{MaxAttempts: 5, BaseDelay: time.Second, MaxDelay: 30 * time.Second}))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	fmt.Println(resp.StatusCode)
	return resp.Body.Close()
}

func Example_retryablehttp() {
	srv := httptest.NewServer(refunds())
	defer srv.Close()
	req, err := http.NewRequest(http.MethodPost, srv.URL+"/refunds", strings.NewReader("{}"))
	if err == nil {
		err = likeRetryablehttp(req)
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output: 201
}

// endpoint is the second part of docs/tutorial.md.
func endpoint(st *boltstore.Store, createRefund func(http.ResponseWriter, *http.Request)) http.Handler {
	once := server.Middleware(st, server.Required(), server.Principal(customer))
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", once(http.HandlerFunc(createRefund)))
	return mux
}

var _ = endpoint
