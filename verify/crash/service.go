package main

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
)

const (
	// leaseTTL is short, so that a key of a dead process is soon free, and a stop is often longer.
	leaseTTL = 400 * time.Millisecond
	// patience bounds an attempt, so that a request leaves a stopped process for the other one.
	patience = 500 * time.Millisecond
	// storeTimeout bounds a call to a stopped engine.
	storeTimeout = time.Second
	userHeader   = "X-User"
)

func user(r *http.Request) string { return r.Header.Get(userHeader) }

// A service is a service's process.
type service struct {
	role   role
	mode   mode
	at     *site
	ledger *fencedFile
	seen   *diary
}

func runService(ctx context.Context, r role) error {
	m, err := modeOf(r.Mode)
	if err != nil {
		return err
	}
	at, err := r.Place.open(ctx, r.Dir, "service")
	if err != nil {
		return err
	}
	ledger, err := openFenced(ledgerFile(r.Dir))
	if err != nil {
		return err
	}
	seen, err := openDiary(filepath.Join(r.Dir, r.Name+".requests"))
	if err != nil {
		return err
	}
	s := &service{role: r, mode: m, at: at, ledger: ledger, seen: seen}
	once, err := server.New(at.records, append(m.options(s), server.Required(), server.Principal(user),
		server.LeaseTTL(leaseTTL), server.Wait(patience/2), server.StoreTimeout(storeTimeout))...)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders", s.note(once(http.HandlerFunc(s.order))))
	stage.On("effects", func([]string) (any, error) { return s.effects() })
	stage.On("waiting", func([]string) (any, error) {
		if at.queue == nil {
			return outbox.Stats{}, nil
		}
		return at.queue.Stats(context.Background())
	})
	if at.queue != nil && !r.Place.shared() {
		go func() { _ = relay(ctx, at.queue, r) }() // the file belongs to this process alone
	}
	return listen(mux)
}

func ledgerFile(dir string) string { return filepath.Join(dir, "ledger") }

// listen serves on a new address until the process is killed.
func listen(h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}
	stage.Up(l.Addr().String())
	return srv.Serve(l)
}

// note appends each request to the service's own file, in front of redo.
func (s *service) note(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := s.seen.write(request{r.URL.Query().Get("operation"), r.Header.Get("Idempotency-Key")})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// order makes the effect of an operation. A process may die at any point of it.
func (s *service) order(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	e := effect{
		Operation: r.URL.Query().Get("operation"), Key: server.Key(ctx), Run: randomName(),
		Fence: server.Fence(ctx), TakenOver: server.TakenOver(ctx),
	}
	s.work(ctx)
	e.At = time.Now()
	if s.role.Defect == early {
		go func() {
			time.Sleep(300 * time.Millisecond)
			_ = s.mode.enter(s, context.WithoutCancel(ctx), e)
		}()
	} else if err := s.mode.enter(s, ctx, e); err != nil {
		if errors.Is(err, errUnannounced) {
			server.Unknown(ctx) // the effect is made
		}
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	s.work(context.WithoutCancel(ctx))
	if s.role.Defect == released {
		server.Release(ctx)
	}
	respond(e).ServeHTTP(w, r)
}

// work takes some time, less while the handler holds the lock of a whole file.
func (s *service) work(ctx context.Context) {
	longest := s.role.Work
	if s.mode.transaction && s.role.Place.inFile() {
		longest /= 8
	}
	select {
	case <-time.After(rand.N(longest)):
	case <-ctx.Done():
	}
}

func respond(e effect) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(receipt{e.Operation, e.Run}) // a client that is gone repeats the request
	})
}

var errUnannounced = errors.New("the outbox did not take the event")

// announce appends the event of an effect that is in the file, until the outbox has it.
func (s *service) announce(ctx context.Context, e effect) error {
	if s.at.queue == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	for {
		err := s.at.queue.Append(ctx, event(s.role, e))
		if err == nil || errors.Is(err, outbox.ErrDuplicate) {
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, store.ErrInvalid) {
			return errors.Join(errUnannounced, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// event returns the event of an effect. A second effect has another one, so that no queue hides it.
func event(r role, e effect) outbox.Event {
	payload, _ := json.Marshal(notice{e.Operation, e.Run}) // two strings always encode
	return outbox.Event{ID: "ev_" + e.Run, Type: "order.created", Destination: r.Events, Payload: payload}
}

// effects returns the effects of all services.
func (s *service) effects() (any, error) {
	if s.mode.transaction {
		return s.at.effects(context.Background())
	}
	return ledgerOf(s.role.Dir)
}

func ledgerOf(dir string) (effects []effect, err error) {
	lines, err := readDiary[effect](ledgerFile(dir))
	for _, e := range lines {
		if !e.Mark {
			effects = append(effects, e)
		}
	}
	return effects, err
}
