package main

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// demo stops the service while a payment runs.
func demo() error {
	dir, err := os.MkdirTemp("", "redo-kubernetes-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	paid := make(chan error, 1)
	err = serve("127.0.0.1:0", filepath.Join(dir, "payments.redo"), 0, func(url string) {
		go func() { paid <- pay(url + "/payments") }()
		<-running
		fmt.Println("SIGTERM arrives while a payment runs")
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			log.Fatal(err)
		}
	})
	return errors.Join(err, <-paid)
}

func pay(url string) error {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"amount":1000}`))
	if err != nil {
		return err
	}
	req.SetBasicAuth("alice", "secret")
	req.Header.Set("Idempotency-Key", "payment-1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	fmt.Println("the payment:", resp.StatusCode, resp.Header.Get("Idempotency-Status"))
	return nil
}
