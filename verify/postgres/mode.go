package main

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/server"
)

// A mode is a way to run the service.
type mode struct {
	name, title string
	// options returns the middleware's options for this mode, beyond those of every mode.
	options func(*service) []server.Option
	// mayRepeat is true if an effect may be made again when a key is taken over.
	mayRepeat bool
}

var modes = []mode{
	{
		name: "transaction", title: "in one transaction",
		options: func(*service) []server.Option { return []server.Option{server.Transactional[pgx.Tx]()} },
	},
	{
		name: "recover", title: "in two steps, recovering",
		options: func(s *service) []server.Option {
			return []server.Option{server.TakeOver(server.Recover(
				func(ctx context.Context, _ *http.Request, key string, _ []byte) (http.Handler, error) {
					return s.recover(ctx, key)
				}))}
		},
	},
	{
		name: "rerun", title: "in two steps, run again",
		options:   func(*service) []server.Option { return []server.Option{server.TakeOver(server.Reexecute())} },
		mayRepeat: true,
	},
}
