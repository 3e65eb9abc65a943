// Package informational lets handlers send informational responses (1xx) through the writer of a framework, which would
// take their status for that of the response.
package informational

import "net/http"

// Writer returns w for the middleware. Informational responses go to the writer behind w, which is that of net/http
// unless something outside of the framework hides it.
func Writer(w http.ResponseWriter) http.ResponseWriter { return writer{w} }

type writer struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (w writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w writer) WriteHeader(status int) {
	to := w.ResponseWriter
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		for wrapper, ok := to.(unwrapper); ok; wrapper, ok = to.(unwrapper) {
			to = wrapper.Unwrap()
		}
	}
	to.WriteHeader(status)
}

type unwrapper interface{ Unwrap() http.ResponseWriter }
