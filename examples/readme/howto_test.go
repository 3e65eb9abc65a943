package readme

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/redo-go/redo"
)

// likeRetryablehttp is the snippet of docs/from-retryablehttp.md.
func likeRetryablehttp(req *http.Request) error {
	client, err := redo.New(redo.WithRetry(redo.RetryPolicy{
		MaxAttempts: 5, BaseDelay: time.Second, MaxDelay: 30 * time.Second, MaxElapsed: time.Minute,
	}))
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
