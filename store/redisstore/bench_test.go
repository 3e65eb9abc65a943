package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

// BenchmarkReserveAndComplete and BenchmarkReplay run 64 callers on a private server, beside a bare pair by the same
// client: SET NX GET, then a compare-and-set script. Run them in one go and compare. "server-cpu-ns/op" is the
// processor time that the server has used, which moves least with the load of the machine.
func BenchmarkReserveAndComplete(b *testing.B) {
	e := privateEngine(b)
	result := make([]byte, 512)
	var n atomic.Int64
	b.Run("redo", func(b *testing.B) {
		st := open(b, e.url())
		benchCallers(b, e, func(ctx context.Context) error {
			g, err := st.Reserve(ctx, claim(fmt.Sprint(n.Add(1))))
			if err != nil {
				return err
			}
			return st.Complete(ctx, g.Lease, store.Outcome{Result: result})
		})
	})
	b.Run("a bare pair", func(b *testing.B) {
		c := client(b, e.url())
		cas := rueidis.NewLuaScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', 86400000) return 1`)
		done := string(result)
		benchCallers(b, e, func(ctx context.Context) error {
			key := fmt.Sprint("bare:", n.Add(1))
			err := c.Do(ctx, c.B().Arbitrary("SET").Keys(key).Args(key, "NX", "GET", "PX", "86400000").Build()).Error()
			if !rueidis.IsRedisNil(err) {
				return err
			}
			return cas.Exec(ctx, c, []string{key}, []string{key, done}).Error()
		})
	})
}

func BenchmarkReplay(b *testing.B) {
	e := privateEngine(b)
	result := make([]byte, 512)
	b.Run("redo", func(b *testing.B) {
		st := open(b, e.url())
		g, err := st.Reserve(b.Context(), claim("k"))
		require.NoError(b, err)
		if g.Verdict.Owned() {
			require.NoError(b, st.Complete(b.Context(), g.Lease, store.Outcome{Result: result}))
		}
		benchCallers(b, e, func(ctx context.Context) error {
			_, err := st.Reserve(ctx, claim("k"))
			return err
		})
	})
	b.Run("a bare SET", func(b *testing.B) {
		c := client(b, e.url())
		e.must(b, "SET", "bare", string(result))
		benchCallers(b, e, func(ctx context.Context) error {
			return c.Do(ctx,
				c.B().Arbitrary("SET").Keys("bare").Args("other", "NX", "GET", "PX", "86400000").Build()).Error()
		})
	})
}

// benchCallers runs f from 64 goroutines, b.N times in all.
func benchCallers(b *testing.B, e *engine, f func(context.Context) error) {
	before := serverCPU(b, e)
	b.ResetTimer()
	var (
		wg   sync.WaitGroup
		left atomic.Int64
	)
	left.Store(int64(b.N))
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := f(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric((serverCPU(b, e)-before)/float64(b.N), "server-cpu-ns/op")
}

// serverCPU is the processor time that the server has used, in nanoseconds.
func serverCPU(b *testing.B, e *engine) (sum float64) {
	for line := range strings.Lines(e.tells(b, "INFO", "cpu")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if seconds, err := strconv.ParseFloat(value, 64); err == nil &&
			(name == "used_cpu_user" || name == "used_cpu_sys") {
			sum += seconds * 1e9
		}
	}
	return sum
}
