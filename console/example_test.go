package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/redo-go/redo/console"
	"github.com/redo-go/redo/outbox/memoutbox"
)

// The service mounts the console below a path, behind its own login.
func Example() {
	queue := memoutbox.New() // the queue of the service's relay
	login := func(r *http.Request) (author string, ok bool) {
		name, password, _ := r.BasicAuth() // your session in practice
		return name, name == "ana" && password == "correct horse"
	}
	ops, err := console.New(console.Events("outbox", queue), console.Authenticate(login))
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/console/", http.StripPrefix("/console", ops))

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
