package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/store/memstore"
)

// uploadMemory is how much the heap may grow during an upload: the buffers of connections and of the gateway.
const uploadMemory = 32 << 20

// upload streams a body through a gateway to an upstream, and samples the memory meanwhile.
func upload(ctx context.Context, size int64, out io.Writer) error {
	var received, most atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err == nil && r.Header.Get("Idempotency-Key") != "" {
			received.Add(n)
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	if err != nil {
		return err
	}
	g, err := gateway.New(target, memstore.New(), gateway.Principal(func(*http.Request) string { return "soak" }),
		gateway.Secret([]byte("sixteen bytes or more")))
	if err != nil {
		return err
	}
	front := httptest.NewServer(g)
	defer front.Close()

	before := liveHeap()
	watched, stop := context.WithCancel(ctx)
	defer stop()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		for watched.Err() == nil {
			most.Store(max(most.Load(), liveHeap()))
			time.Sleep(20 * time.Millisecond)
		}
	}()
	begun := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, front.URL, io.LimitReader(zeros{}, size))
	if err != nil {
		return err
	}
	req.ContentLength = size
	req.Header.Set("Idempotency-Key", "soak-upload-1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	took := time.Since(begun)
	stop()
	<-watching
	grown := most.Load() - before
	fmt.Fprintf(out, "bytes   %d\ntook    %v\nmemory  +%s at most\n",
		received.Load(), took.Round(time.Millisecond), mebibytes(grown))
	switch err = errors.Join(resp.Body.Close(), g.Shutdown(ctx)); {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusCreated || received.Load() != size:
		return fmt.Errorf("status %d: %d of %d bytes arrived under a key", resp.StatusCode, received.Load(), size)
	case grown > uploadMemory:
		return fmt.Errorf("memory grew by %s, at most %s is for buffers", mebibytes(grown), mebibytes(uploadMemory))
	}
	return nil
}

// zeros reads as an endless body.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
