package webhook

import (
	"net/http"
	"net/netip"
)

// Rule returns the Dialer's rule against an address, or "" if it may connect to it.
func (d *Dialer) Rule(a netip.Addr) string { return d.rule(a) }

// Client is the client of the requests for the key set.
func (k *KeySet) Client() *http.Client { return k.client }
