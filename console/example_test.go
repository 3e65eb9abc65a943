package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/console"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store/memstore"
)

// session is an example of your service's login.
func session(r *http.Request) (author string, ok bool) {
	name, password, _ := r.BasicAuth()
	return name, name == "ana" && password == "correct horse"
}

func mount(mux *http.ServeMux) error {
	records := memstore.New()
	client, err := redo.New(redo.WithStore(records))
	if err != nil {
		return err
	}
	in, err := inbox.New(records)
	if err != nil {
		return err
	}
	queue := memoutbox.New() // the queue of the service's relay
	ops, err := console.New(
		console.Operations(client),
		console.Events("outbox", queue),
		console.Letters(in),
		console.Authenticate(session), // func(r *http.Request) (author string, ok bool)
	)
	if err != nil {
		return err
	}
	mux.Handle("/console/", http.StripPrefix("/console", ops))
	return nil
}

// The service mounts the console below a path, behind its own login.
func Example() {
	mux := http.NewServeMux()
	if err := mount(mux); err != nil {
		fmt.Println(err)
		return
	}
	for _, password := range []string{"wrong", "correct horse"} {
		r := httptest.NewRequest(http.MethodGet, "/console/", nil)
		r.SetBasicAuth("ana", password)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.Contains(w.Body.String(), "Signed in as ana"))
	}
	// Output:
	// 401 false
	// 200 true
}
