package storm

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/redo-go/redo"
)

// A backoff returns the wait after the n-th failure, from 0.
type backoff struct {
	name string
	wait func(n int, prev time.Duration, rng *rand.Rand) time.Duration
}

// schedule is redo's, with an own base and cap as in the study.
var schedule = redo.RetryPolicy{BaseDelay: 5 * time.Millisecond, MaxDelay: 2 * time.Second}

func jittered(name string, j redo.Jitter) backoff {
	return backoff{name, func(n int, prev time.Duration, rng *rand.Rand) time.Duration {
		return j(n, prev, schedule, rng.Float64())
	}}
}

// backoffs are the ones that contend. The first five are those of the study by Marc Brooker,
// https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/.
func backoffs() []backoff {
	aws := retry.NewExponentialJitterBackoff(retry.DefaultMaxBackoff)
	return []backoff{
		jittered("no backoff", redo.NoDelay),
		jittered("no jitter", bare),
		jittered("equal jitter", redo.EqualJitter),
		jittered("full jitter", redo.FullJitter),
		jittered("decorrelated jitter", redo.DecorrelatedJitter),
		{"go-retryablehttp", func(n int, _ time.Duration, _ *rand.Rand) time.Duration {
			return retryablehttp.DefaultBackoff(time.Second, 30*time.Second, n, nil)
		}},
		{"aws-sdk-go-v2", func(n int, _ time.Duration, _ *rand.Rand) time.Duration {
			d, _ := aws.BackoffDelay(n+1, nil) // it fails for no attempt from 1 on
			return d
		}},
		{"gRPC", func(n int, _ time.Duration, _ *rand.Rand) time.Duration { return grpcDelay(n) }},
		{"Envoy", func(n int, _ time.Duration, _ *rand.Rand) time.Duration { return envoyDelay(n) }},
	}
}

// A contender reads a row, and then writes it if no other client has written it meanwhile.
type contender struct {
	at       time.Duration
	writes   bool // the next message is a write
	version  int
	failures int
	prev     time.Duration
}

type queue []*contender

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*contender)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// contend lets n clients update one row with optimistic locking, all from the same instant on. It returns when the
// last one has succeeded, and how many writes were sent.
func contend(b backoff, n int, seed uint64) (took time.Duration, calls int) {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	hop := func() time.Duration { return time.Duration(max(1e6, 10e6+2e6*rng.NormFloat64())) } // 10 ms, as in the study
	q := make(queue, 0, n)
	for range n {
		heap.Push(&q, &contender{at: hop()})
	}
	version := 0
	for q.Len() > 0 {
		c := heap.Pop(&q).(*contender)
		switch {
		case !c.writes: // the read arrives
			c.version, c.writes = version, true
			c.at += 2 * hop()
		default:
			calls++
			if c.version == version {
				version++
				took = c.at
				continue
			}
			c.prev = b.wait(c.failures, c.prev, rng)
			c.failures++
			c.writes = false
			c.at += c.prev + 2*hop()
		}
		heap.Push(&q, c)
	}
	return took, calls
}
