package plain

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambdaurl"
	"github.com/go-chi/chi/v5"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// chi needs no adapter: give the middleware to the route, so that chi's pattern is known.
func Example_chi() {
	charge := func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("charging", chi.URLParam(r, "id"))
		w.WriteHeader(http.StatusCreated)
	}
	mw, err := server.New(memstore.New(), server.Required(), server.Principal(principal))
	if err != nil {
		fmt.Println(err)
		return
	}
	router := chi.NewRouter()
	router.Use(authenticate)
	router.With(mw).Post("/charges/{id}", charge)

	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/charges/7", strings.NewReader(`{"cents":1000}`))
		r.Header.Set("Idempotency-Key", "charge-7")
		r.Header.Set("X-User", "alice")
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Idempotency-Status"))
	}
	// Output:
	// charging 7
	// 201 stored
	// 201 replayed
}

// In net/http the middleware goes around the handler of each pattern, inside the mux.
func Example() {
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("charging", r.PathValue("id"))
		w.WriteHeader(http.StatusCreated)
	})
	mw, err := server.New(memstore.New(), server.Required(), server.Principal(principal))
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("POST /charges/{id}", mw(charge))

	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/charges/7", strings.NewReader(`{"cents":1000}`))
		r.Header.Set("Idempotency-Key", "charge-7")
		r.Header.Set("X-User", "alice")
		w := httptest.NewRecorder()
		authenticate(mux).ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Idempotency-Status"))
	}
	// Output:
	// charging 7
	// 201 stored
	// 201 replayed
}

// A function on AWS Lambda serves a mux. Recovery is outside of everything.
func Example_lambda() {
	charge := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	mw, err := server.New(memstore.New(), server.Required(), server.Principal(principal),
		server.HandlerTimeout(15*time.Second)) // the function's limit is 30 seconds
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("POST /charges/{id}", mw(charge))
	lambdaurl.Start(recoverer(authenticate(mux)))
}
