package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// bodySize is the size of an event and of an order, in bytes.
const bodySize = 512

type scenario struct {
	name    string
	columns []string
	once    bool
	run     func(context.Context, settings, place, contestant) (map[string]float64, error)
}

var scenarios = []scenario{
	{"drain", []string{"events/s"}, false, drain},
	{"enqueue", []string{"transactions/s"}, false, enqueue},
	{"delay", []string{"p50 ms", "p99 ms"}, false, delay},
	{"held", []string{"events/s", "p50 ms", "p99 ms", "last p99 ms"}, true, held},
	{"backlog", []string{"events/s"}, false, backlog},
}

// works runs the contestant's workers while f runs.
func works(ctx context.Context, q queue, deliver func([]byte), f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := q.work(ctx, deliver)
		cancel()
		ended <- err
	}()
	err := f(ctx)
	cancel()
	return errors.Join(err, <-ended)
}

func drain(ctx context.Context, s settings, p place, c contestant) (map[string]float64, error) {
	return drainBehind(ctx, s, p, c, 0)
}

func backlog(ctx context.Context, s settings, p place, c contestant) (map[string]float64, error) {
	return drainBehind(ctx, s, p, c, s.backlog)
}

// drainBehind measures the drain of events behind which others wait.
func drainBehind(ctx context.Context, s settings, p place, c contestant, others int) (map[string]float64, error) {
	q, err := c.open(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := q.fill(ctx, s.events+others); err != nil {
		return nil, err
	}
	if _, err := p.pool.Exec(ctx, "VACUUM ANALYZE"); err != nil {
		return nil, err
	}
	var took time.Duration
	var n atomic.Int64
	all := make(chan struct{})
	start := time.Now()
	err = works(ctx, q, func([]byte) {
		if n.Add(1) == int64(s.events) {
			took = time.Since(start)
			close(all)
		}
	}, func(ctx context.Context) error {
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return map[string]float64{"events/s": float64(s.events) / took.Seconds()}, err
}

const producers = 16

func enqueue(ctx context.Context, s settings, p place, c contestant) (map[string]float64, error) {
	var q queue
	if c.open != nil {
		var err error
		if q, err = c.open(ctx, p); err != nil {
			return nil, err
		}
	}
	var wg sync.WaitGroup
	var n atomic.Int64
	errs := make([]error, producers)
	start := time.Now()
	for i := range producers {
		wg.Go(func() {
			body := make([]byte, bodySize)
			for errs[i] == nil && time.Since(start) < s.span {
				errs[i] = order(ctx, p, q, body)
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return map[string]float64{"transactions/s": float64(n.Load()) / time.Since(start).Seconds()}, errors.Join(errs...)
}

// order commits an order, with an event unless q is nil.
func order(ctx context.Context, p place, q queue, body []byte) error {
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (body) VALUES ($1)", body); err != nil || q == nil {
			return err
		}
		return q.enqueue(ctx, tx, body)
	})
}

func delay(ctx context.Context, s settings, p place, c contestant) (map[string]float64, error) {
	return delays(ctx, p, c, 100, s.span)
}

func held(ctx context.Context, s settings, p place, c contestant) (map[string]float64, error) {
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, "SELECT count(*) FROM pg_class"); err != nil {
		return nil, err
	}
	return delays(ctx, p, c, 800, s.hold)
}

// delays enqueues events at a rate, from as many producers as it takes, and measures how long each is under way.
func delays(ctx context.Context, p place, c contestant, rate int, span time.Duration) (map[string]float64, error) {
	q, err := c.open(ctx, p)
	if err != nil {
		return nil, err
	}
	n := int(span.Seconds() * float64(rate))
	var mu sync.Mutex
	committed, came := make([]time.Time, n), make([]time.Time, n)
	left, all := n, make(chan struct{})
	var took time.Duration
	start := time.Now()
	deliver := func(body []byte) {
		now, i := time.Now(), binary.BigEndian.Uint64(body)
		mu.Lock()
		defer mu.Unlock()
		if i < uint64(n) && came[i].IsZero() {
			came[i] = now
			if left--; left == 0 {
				took = now.Sub(start)
				close(all)
			}
		}
	}
	err = works(ctx, q, deliver, func(ctx context.Context) error {
		time.Sleep(time.Second) // for the workers to listen
		start = time.Now()
		var wg sync.WaitGroup
		var next atomic.Int64
		errs := make([]error, producers)
		for k := range producers {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < n && errs[k] == nil; i = int(next.Add(1)) - 1 {
					time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(rate))))
					body := make([]byte, bodySize)
					binary.BigEndian.PutUint64(body, uint64(i))
					errs[k] = order(ctx, p, q, body)
					mu.Lock()
					committed[i] = time.Now()
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		select {
		case <-all:
			return nil
		case <-time.After(2 * time.Minute):
			return fmt.Errorf("%d of %d events are missing", left, n)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		return nil, err
	}
	under := make([]float64, n)
	for i := range under {
		under[i] = max(0, float64(came[i].Sub(committed[i]))/1e6)
	}
	last := slices.Clone(under[n*9/10:])
	slices.Sort(under)
	slices.Sort(last)
	return map[string]float64{
		"events/s": float64(n) / took.Seconds(), "p50 ms": under[n/2], "p99 ms": under[n*99/100],
		"last p99 ms": last[len(last)*99/100],
	}, nil
}
