// Resume finishes the operations that a killed process has left behind. A process is killed with SIGKILL while the API
// works on its refund. The next process finds the refund in its file, and sends it again under its key.
//
//	$ go run ./examples/resume
//	killed: the API has made 1 refund, and no response has arrived
//	resumed refund:ch_9ab:1000: 201, replayed: true
//	the API has made 1 refund
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store/boltstore"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	run := demo
	if len(os.Args) == 3 { // the process that is killed
		run = func(ctx context.Context) error { return refund(ctx, os.Args[1], os.Args[2]) }
	}
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// resume continues the pending operations of the file. Call it when the program starts. Client.ResumeEvery does it
// in the background, and processes that share a store take turns.
func resume(ctx context.Context, file string) error {
	ops, err := boltstore.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = ops.Close() }()
	client, err := redo.New(redo.WithStore(ops), redo.WithCredentials(func(r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Getenv("API_TOKEN")) // credentials are never stored
		return nil
	}))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	for op, err := range client.Pending(ctx) {
		if err != nil {
			log.Print(err) // a damaged record hides no other
			continue
		}
		resp, err := client.Resume(ctx, op)
		if err != nil {
			log.Print(err) // redo.SafeToRetry(err) reports whether it is still pending
			continue
		}
		_ = resp.Body.Close()
		fmt.Printf("resumed %s: %d, replayed: %t\n", op.Name, resp.StatusCode, redo.Replayed(resp))
	}
	return nil
}

// refund makes the call during which the process is killed.
func refund(ctx context.Context, url, file string) error {
	ops, err := boltstore.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = ops.Close() }()
	client, err := redo.New(redo.WithStore(ops))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ctx = redo.WithOperation(ctx, "refund:ch_9ab:1000")
	_, err = redo.Call[any](ctx, client, "POST", url+"/refunds", map[string]int{"amount": 1000})
	return err
}

// demo kills a process between the effect and the response, and resumes its operation.
func demo(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	api, err := servertest.Serve(l, log.Printf, servertest.ScriptNext(servertest.DelayAfterEffect(time.Hour)))
	if err != nil {
		return err
	}
	defer api.Close()
	dir, err := os.MkdirTemp("", "redo-resume-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "payments.redo")

	first := exec.CommandContext(ctx, os.Args[0], api.URL, file)
	if err := first.Start(); err != nil {
		return err
	}
	for api.Ledger().Total() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	_ = first.Process.Kill() // SIGKILL: nothing is tidied up
	_ = first.Wait()
	fmt.Printf("killed: the API has made %d refund, and no response has arrived\n", api.Ledger().Total())
	if err := resume(ctx, file); err != nil {
		return err
	}
	fmt.Printf("the API has made %d refund\n", api.Ledger().Total())
	return nil
}
