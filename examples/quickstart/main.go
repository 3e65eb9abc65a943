// Quickstart shows the purpose of redo: a refund service and a client, each with its own process and file, and the
// faults between them. At the end the service's ledger holds each operation once.
//
//	go run ./examples/quickstart
//
// It uses the loopback interface and a temporary directory, and takes a few seconds.
package main

import (
	"fmt"
	"os"

	"github.com/redo-go/redo/internal/stage"
)

// A role is the part of a process.
type role struct {
	Name    string `json:"name"` // client or service
	File    string `json:"file"` // of its store
	Address string `json:"address"`
	Ledger  string `json:"ledger,omitempty"` // the file of the service's ledger
	Part    string `json:"part,omitempty"`   // the client's part
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run() error {
	if stage.IsPart() {
		return stage.Play(func(r role) error {
			if r.Name == "service" {
				return serve(r)
			}
			return act(r)
		})
	}
	return tell(os.Stdout)
}
