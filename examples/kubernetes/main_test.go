package main

import (
	"net/http/httptest"
	"testing"
	"time"
)

// A handler that waits for the demonstration would hang from the second payment on, and hold up the pod's end.
func TestEveryPaymentEnds(t *testing.T) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 3 {
			createPayment(httptest.NewRecorder(), httptest.NewRequest("POST", "/payments", nil))
		}
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("a payment hangs")
	}
}
