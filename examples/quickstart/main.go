// Quickstart shows what redo is for: a refund service and a client, each in a process of its own with a file of its
// own, and everything that goes wrong between them. At the end the service's ledger holds each operation once.
//
//	go run ./examples/quickstart
//
// It uses the loopback interface and a temporary directory, and takes a few seconds.
package main

import (
	"fmt"
	"os"
)

func main() {
	var err error
	switch role := argument(1); role {
	case "":
		err = tell(os.Stdout)
	case "service":
		err = serve(argument(2), argument(3), argument(4))
	case "client":
		err = act(argument(2), argument(3), argument(4))
	default:
		err = fmt.Errorf("unknown role %q: run it without arguments", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func argument(n int) string {
	if n < len(os.Args) {
		return os.Args[n]
	}
	return ""
}
