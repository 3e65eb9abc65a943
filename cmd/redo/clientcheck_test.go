package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/cmd/redo/internal/clientcheck"
)

// refund is a client for redo client-check. It retries nothing and follows no redirect.
func refund() {
	if err := sendRefund(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func sendRefund() error {
	req, err := http.NewRequest(http.MethodPost, os.Getenv(clientcheck.EnvURL), strings.NewReader(`{"amount":1000}`))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", os.Getenv(clientcheck.EnvOperation))
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(&struct{}{})
}

// placeRefund puts the client into the working directory.
func placeRefund(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, "refund"))
}
