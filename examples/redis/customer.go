package main

import "net/http"

// passwords are the credentials of the customers.
var passwords = map[string]string{"alice": "wonderland", "bob": "builder"}

// authenticate refuses requests without the credentials of a customer. It runs outside of the middleware.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		if want, ok := passwords[name]; !ok || password != want {
			http.Error(w, "unknown customer", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// customer returns the name that authenticate has checked. A key belongs to one customer.
func customer(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

// signIn is the transport of a customer. It adds the credentials to each request.
type signIn string

// RoundTrip implements http.RoundTripper.
func (name signIn) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth(string(name), passwords[string(name)])
	return http.DefaultTransport.RoundTrip(r)
}
