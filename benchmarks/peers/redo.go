package main

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/benchmarks/post"
	"github.com/redo-go/redo/store/boltstore"
)

// Names of redo's contestants among the clients.
const (
	byDo        = "redo.Do"
	byTransport = "redo.Transport"
)

func newRedo(to target, opts ...redo.Option) (*redo.Client, error) {
	opts = append(opts, redo.WithTransport(to.rt), redo.WithProfile(redo.RedoProfile()))
	if !to.patient {
		opts = append(opts, redo.WithRetry(redo.RetryPolicy{Jitter: redo.NoDelay}))
	}
	return redo.New(opts...)
}

func openDo(to target) (sender, error) {
	c, err := newRedo(to)
	if err != nil {
		return sender{}, err
	}
	return sending(to, c.Do), nil
}

func openTransport(to target) (sender, error) {
	c, err := newRedo(to)
	if err != nil {
		return sender{}, err
	}
	return sending(to, (&http.Client{Transport: c.Transport()}).Do), nil
}

// openDurable stores the one operation "refund" in a file.
func openDurable(to target) (sender, error) {
	st, err := boltstore.Open(filepath.Join(to.dir, "operations.redo"))
	if err != nil {
		return sender{}, err
	}
	c, err := newRedo(to, redo.WithStore(st))
	if err != nil {
		return sender{}, errors.Join(err, st.Close())
	}
	return sender{close: st.Close, send: func(ctx context.Context, payload []byte, key []string) error {
		req, err := post.NewRequest(redo.WithOperation(ctx, "refund"), to.url, payload)
		if err != nil {
			return err
		}
		if key != nil {
			req.Header["Idempotency-Key"] = key
		}
		return post.Consume(c.Do(req))
	}}, nil
}

func effectByRedo(err error) string {
	if e, ok := errors.AsType[*redo.Error](err); ok {
		return e.Effect.String()
	}
	return ""
}
