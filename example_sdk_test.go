package redo_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// sendBySDK sends a request as an SDK does, and returns its status.
func sendBySDK(ctx context.Context, client *http.Client, url, body string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// An SDK returns errors of its own. The report has the attempts, and redo's error with the known effect.
func ExampleWithReport() {
	provider := &shop{}
	provider.lost.Store(1)
	api := provider.start()
	defer api.Close()

	client, err := redo.New(redo.WithStore(memstore.New()))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, report := redo.WithReport(redo.WithOperation(context.Background(), "refund:ch_9ab:1000"))
	status, err := sendBySDK(ctx, &http.Client{Transport: client.Transport()}, api.URL, "1000")
	fmt.Println(status, err)
	for _, a := range report.Attempts() {
		fmt.Println("attempt", a.Number, "status", a.Status)
	}
	fmt.Println("failed:", report.Err() != nil)
	// Output:
	// 201 <nil>
	// attempt 1 status 502
	// attempt 2 status 201
	// failed: false
}

// An SDK may get a token on the same context. The name is for the refund alone.
func ExampleWithOperationFor() {
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(r.URL.Path, "has a key:", r.Header.Get("Idempotency-Key") != "")
	}))
	defer api.Close()

	client, err := redo.New(redo.WithStore(memstore.New()))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := redo.WithOperationFor(context.Background(), "refund:ch_9ab:1000", func(r *http.Request) bool {
		return r.URL.Path == "/refunds"
	})
	sdk := &http.Client{Transport: client.Transport()}
	for _, path := range []string{"/token", "/refunds"} {
		if _, err := sendBySDK(ctx, sdk, api.URL+path, "1000"); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// /token has a key: false
	// /refunds has a key: true
}

// A multipart body has another boundary in each call. The function returns the content that identifies the operation.
func ExampleWithFingerprint() {
	provider := &shop{}
	api := provider.start()
	defer api.Close()

	parts := func(req *http.Request, body io.Reader) ([]byte, error) {
		_, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
		if err != nil {
			return nil, err
		}
		form, err := multipart.NewReader(body, params["boundary"]).ReadForm(1 << 20)
		if err != nil {
			return nil, err
		}
		return fmt.Append(nil, form.Value), nil // a map is printed in the order of its keys
	}
	client, err := redo.New(redo.WithStore(memstore.New()), redo.WithFingerprint(parts))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := redo.WithOperation(context.Background(), "refund:ch_9ab")
	for _, amount := range []string{"1000", "1000", "2000"} {
		var body bytes.Buffer
		form := multipart.NewWriter(&body) // with a boundary by chance
		_ = form.WriteField("amount", amount)
		_ = form.Close()
		req, err := http.NewRequestWithContext(ctx, "POST", api.URL, &body)
		if err != nil {
			fmt.Println(err)
			return
		}
		req.Header.Set("Content-Type", form.FormDataContentType())
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println(amount, redo.CodeOf(err))
			continue
		}
		fmt.Println(amount, resp.StatusCode)
		_ = resp.Body.Close()
	}
	// Output:
	// 1000 201
	// 1000 201
	// 2000 CONFLICT.idempotency.payload_mismatch
}

// The API responds with 404 until its replicas know a new account, and with 200 to a transfer that it refused.
func ExampleWithClassifier() {
	responses := []func(w http.ResponseWriter){
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"ok":false,"error":"account is closed"}`) },
	}
	calls := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		responses[calls](w)
		calls++
	}))
	defer api.Close()

	ofAPI := func(resp *http.Response, body []byte, v taxonomy.Verdict) taxonomy.Verdict {
		switch {
		case resp.StatusCode == http.StatusNotFound:
			v.Class = taxonomy.ClassTransient
		case bytes.Contains(body, []byte(`"ok":false`)):
			v = taxonomy.Verdict{Code: taxonomy.Validation + ".refused", Effect: taxonomy.NotApplied}
		}
		return v
	}
	client, err := redo.New(redo.WithClassifier(ofAPI))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = redo.Call[struct{}](context.Background(), client, "POST", api.URL, 1000)
	fmt.Println(err)
	// Output:
	// redo: VALIDATION.refused (status 200) after 2 attempts, effect not applied
}
