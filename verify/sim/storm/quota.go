package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo"
)

// A quota is a server that allows a fixed number of requests in each window. It reports the number in RateLimit
// headers (draft-ietf-httpapi-ratelimit-headers).
type quota struct {
	start  time.Time
	window time.Duration
	most   int

	mu      sync.Mutex
	used    map[int]int
	refused map[int]int
}

// RoundTrip implements http.RoundTripper.
func (q *quota) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	time.Sleep(5 * time.Millisecond)
	q.mu.Lock()
	defer q.mu.Unlock()
	at := time.Since(q.start)
	n := int(at / q.window)
	status := http.StatusCreated
	if q.used[n] >= q.most {
		status = http.StatusTooManyRequests
		q.refused[n]++
	} else {
		q.used[n]++
	}
	left := time.Duration(n+1)*q.window - at
	reset := int((left + time.Second - 1) / time.Second)
	h := http.Header{
		"Ratelimit-Policy": {fmt.Sprintf(`"default";q=%d;w=%d`, q.most, int(q.window/time.Second))},
		"Ratelimit":        {fmt.Sprintf(`"default";r=%d;t=%d`, q.most-q.used[n], reset)},
	}
	if status == http.StatusTooManyRequests {
		h.Set("Retry-After", strconv.Itoa(reset))
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: io.NopCloser(strings.NewReader("")), Request: req,
	}, nil
}

// A usage holds the use of a quota.
type usage struct {
	workers int
	used    float64 // percent of the quota
	refused float64 // requests per window
	most    int     // refused requests in one window
}

// spend lets workers call without a pause for some windows. It must be called in a synctest bubble.
func spend(workers, windows, most int, window time.Duration, opts ...redo.Option) (usage, error) {
	q := &quota{start: time.Now(), window: window, most: most, used: map[int]int{}, refused: map[int]int{}}
	client, err := redo.New(append([]redo.Option{
		redo.WithTransport(q),
		redo.WithRetry(redo.RetryPolicy{MaxElapsed: 10 * window}),
	}, opts...)...)
	if err != nil {
		return usage{}, err
	}
	end := time.Duration(windows) * window
	ctx, cancel := context.WithTimeout(context.Background(), end)
	defer cancel()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				resp, err := client.Do(request(ctx))
				if err == nil {
					_ = resp.Body.Close()
				}
				if e, ok := errors.AsType[*redo.Error](err); ok { // the wait would pass the deadline
					time.Sleep(time.Until(e.RetryAt))
				}
			}
		})
	}
	all.Wait()
	u := usage{workers: workers}
	used, refused := 0, 0
	for n := range windows {
		used += q.used[n]
		refused += q.refused[n]
		u.most = max(u.most, q.refused[n])
	}
	u.used = 100 * float64(used) / float64(most*windows)
	u.refused = float64(refused) / float64(windows)
	return u, nil
}
