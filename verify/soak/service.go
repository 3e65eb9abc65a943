package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
)

// A service counts the effects of each worker's operations. A worker numbers its operations and makes one at a time, so
// the numbers of its effects increase by one. The service needs no memory per operation.
type service struct {
	*httptest.Server
	last    []atomic.Int64 // by worker: the number of the last effect
	effects atomic.Int64
	wrong   atomic.Int64 // effects that were not the next one of their worker
}

func serve(st store.Store, workers int, retention time.Duration) (*service, error) {
	s := &service{last: make([]atomic.Int64, workers)}
	guard, err := server.New(st, server.SharedKeys(), server.Retention(retention),
		server.LeaseTTL(min(retention, 30*time.Second)), server.Wait(time.Second))
	if err != nil {
		return nil, err
	}
	s.Server = httptest.NewServer(guard(http.HandlerFunc(s.charge)))
	return s, nil
}

func (s *service) charge(w http.ResponseWriter, r *http.Request) {
	worker, err1 := strconv.Atoi(r.URL.Query().Get("worker"))
	number, err2 := strconv.ParseInt(r.URL.Query().Get("number"), 10, 64)
	if _, err := io.Copy(io.Discard, r.Body); err != nil || err1 != nil || err2 != nil || worker >= len(s.last) {
		http.Error(w, "no operation of a worker", http.StatusBadRequest)
		return
	}
	if !s.last[worker].CompareAndSwap(number-1, number) {
		s.wrong.Add(1)
	}
	s.effects.Add(1)
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"worker":%d,"number":%d}`, worker, number)
}
