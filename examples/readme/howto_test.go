package readme

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/signal"
	"strings"
	"syscall"
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

// pod is the snippet of docs/kubernetes.md. It is compiled only: it ends with the process.
func pod(st *boltstore.Store) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var background server.Background
	once := server.Middleware(st, server.Required(), server.Principal(customer), server.RunIn(&background))
	srv := &http.Server{Addr: ":8080", Handler: once(http.HandlerFunc(createPayment)), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		time.Sleep(5 * time.Second) // the service's endpoints forget this pod
		grace, cancel := context.WithTimeout(context.Background(), 70*time.Second)
		defer cancel()
		_ = srv.Shutdown(grace)        // no request is running after this
		_ = background.Shutdown(grace) // no outcome is waiting after this
		_ = st.Close()
	}()
	return srv.ListenAndServe()
}

var _ = pod
