package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// demo serves from a temporary file, sends four requests under one key, and prints the responses.
func demo(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "redo-server-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var failures []error
	err = serve(ctx, "127.0.0.1:0", filepath.Join(dir, "refunds.redo"), func(url string) {
		defer stop()
		for _, c := range []struct{ name, amount string }{
			{"alice", "1000"}, {"alice", "1000"}, {"alice", "2000"}, {"bob", "1000"},
		} {
			failures = append(failures, post(url+"/refunds", c.name, c.amount))
		}
	})
	return errors.Join(append(failures, err)...)
}

func post(url, name, amount string) error {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"amount":`+amount+`}`))
	if err != nil {
		return err
	}
	req.SetBasicAuth(name, "secret")
	req.Header.Set("Idempotency-Key", "k1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if code := resp.Header.Get("Error-Code"); code != "" {
		body = []byte(code) // the rest of the problem document explains it
	}
	status := strings.TrimSpace(resp.Header.Get("Idempotency-Status") + " " + string(body))
	fmt.Printf("%s, k1, %s: %d %s\n", name, amount, resp.StatusCode, status)
	return err
}
