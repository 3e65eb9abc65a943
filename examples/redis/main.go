// Redis shows two copies of an order service that share their records in Redis. A load balancer sends each retry to the
// other copy. An order is still made once, also if its requests arrive at the same time.
//
//	go run ./examples/redis
//	go run ./examples/redis -redis redis://cache:6379/0
//
// It needs a Redis or Valkey with the maxmemory-policy noeviction. It looks for one on this machine, or at the URL in
// -redis or REDO_TEST_REDIS. Its keys begin with "redo-orders", and its records expire after a minute.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"time"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/redisstore"
)

// here is the default URL of Redis.
const here = "redis://127.0.0.1:6379/0"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := tell(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "redis:", err)
		os.Exit(1)
	}
}

func tell(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("redis", flag.ContinueOnError)
	url := flags.String("redis", cmp.Or(os.Getenv("REDO_TEST_REDIS"), here), "the `URL` of a Redis or Valkey")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("the argument %q has no effect: name a Redis with -redis", flags.Arg(0))
	}
	book := &orders{}
	var copies [2]*httptest.Server
	for i := range copies {
		// Each copy has its own store, as each machine would. The stores share Redis.
		opening, cancel := context.WithTimeout(ctx, 5*time.Second)
		st, err := redisstore.Open(opening, *url, redisstore.WithPrefix("redo-orders"))
		cancel()
		if errors.Is(err, redisstore.ErrEviction) {
			return err
		}
		if err != nil {
			return fmt.Errorf("no Redis responds; start one (redis-server, or docker run --rm -p 6379:6379 redis) or "+
				"name one with -redis: %w", err)
		}
		defer func() { _ = st.Close() }()
		once := server.Middleware(st, server.Required(), server.Principal(customer), server.Wait(5*time.Second),
			server.Retention(time.Minute))
		mux := http.NewServeMux()
		mux.Handle("POST /orders", once(book.handler(i+1)))
		copies[i] = httptest.NewServer(authenticate(mux))
		defer copies[i].Close()
	}
	return shop(ctx, out, book, [2]string{copies[0].URL, copies[1].URL})
}
