// Nats relays an outbox to a NATS JetStream stream, and delivers one event twice to show that the stream keeps it once.
//
//	nats-server -js &
//	go run ./examples/nats [nats://127.0.0.1:4222]
//
// It makes a stream and a temporary file, and removes both. Without a server it prints a hint and ends. docs/brokers.md
// shows the consumer's side.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
)

func main() {
	url := nats.DefaultURL
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	conn, err := nats.Connect(url, nats.Timeout(2*time.Second))
	if errors.Is(err, nats.ErrNoServers) {
		fmt.Printf("no NATS server at %s: start one with \"nats-server -js\"\n", url)
		return
	}
	if err == nil {
		defer conn.Close()
		err = show(context.Background(), os.Stdout, conn)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nats:", err)
		os.Exit(1)
	}
}
