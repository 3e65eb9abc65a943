package webhook

import (
	"net/http"
	"net/netip"
)

// Rule is what the Dialer checks before it connects to an address.
func (d *Dialer) Rule(a netip.Addr) string { return d.rule(a) }

// Client is the client of the requests for the key set.
func (k *KeySet) Client() *http.Client { return k.client }
