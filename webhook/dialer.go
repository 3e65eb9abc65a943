package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// AddressRefused is the code of an [*AddressError]. Nothing was sent, and no repetition helps before the destination's
// DNS record or the Dialer's options change.
const AddressRefused taxonomy.Code = "CONFIGURATION.address_refused"

// An AddressError reports that a [Dialer] did not connect to an address. It matches [AddressRefused].
//
// Its text has the address. Don't show it to the owner of the destination: it would reveal the addresses of names that
// only the internal DNS knows.
type AddressError struct {
	// Address is the address that the name was resolved to, with the port, such as 127.0.0.1:443.
	Address string
	// Rule names the range that contains the address, such as "loopback, 127.0.0.0/8".
	Rule string
}

// Error implements error.
func (e *AddressError) Error() string {
	return "webhook: address " + e.Address + " refused: " + e.Rule
}

// Unwrap returns AddressRefused.
func (*AddressError) Unwrap() error { return AddressRefused }

// A Dialer makes TCP connections to public addresses only. It is for the DialContext of an http.Transport:
//
//	transport.DialContext = new(webhook.Dialer).DialContext
//
// It checks the address of each connection after name resolution and before the first packet, so a name that changes
// its address between two lookups gains nothing. It refuses loopback, private, link-local and multicast addresses, and
// all others in IANA's registries of special-purpose addresses. It also refuses IPv6 outside of 2000::/3. It judges an
// IPv4-mapped address, or an address with the NAT64 prefix 64:ff9b::/96, by the IPv4 address in it.
//
// If a name has several addresses, a refused one is treated as one that can't be reached.
//
// A Transport with a proxy dials the proxy, and the Dialer then judges the proxy's address. [Transport] uses no proxy.
//
// The zero Dialer is ready to use, and refuses all of these addresses. [NewDialer] makes one with options. A Dialer
// may be used concurrently.
type Dialer struct {
	allow, deny, nat64 []netip.Prefix
	resolver           *net.Resolver
}

// ConnectTimeout limits the resolution of a name and the connection to its addresses. An earlier deadline of the
// context counts.
const ConnectTimeout = 10 * time.Second

// NewDialer returns a Dialer. Its error names each option that is wrong.
func NewDialer(opts ...DialerOption) (*Dialer, error) {
	d := &Dialer{}
	var found []error
	for _, o := range opts {
		if o == nil {
			return nil, errNilOption
		}
		found = append(found, o.applyDialer(d))
	}
	if err := errors.Join(found...); err != nil {
		return nil, err
	}
	return d, nil
}

// DialContext connects to address. The network is tcp, tcp4 or tcp6. The error for a refused address is a *net.OpError
// that wraps an [*AddressError].
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	inner := net.Dialer{Timeout: ConnectTimeout, Resolver: d.resolver, ControlContext: d.control}
	return inner.DialContext(ctx, network, address)
}

// control judges the address of one connection. net calls it after name resolution and before connect.
func (d *Dialer) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return &AddressError{Address: address, Rule: network + " is not TCP"}
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return &AddressError{Address: address, Rule: "not an IP address"}
	}
	if rule := d.rule(to.Addr()); rule != "" {
		return &AddressError{Address: address, Rule: rule}
	}
	return nil
}

// Transport returns an http.Transport over a [Dialer] with these options. [Signer.Transport] uses it by default.
// It ignores the proxies of the environment, since their address would be checked and not the destination's. It
// reads at most 64 KiB of response headers. It has no time limit for the response: the request's context sets it. It
// pings a silent HTTP/2 connection, and replaces one that has died.
//
// Each Transport has its own connections, so share one.
func Transport(opts ...DialerOption) (*http.Transport, error) {
	d, err := NewDialer(opts...)
	if err != nil {
		return nil, err
	}
	return d.transport(), nil
}

func (d *Dialer) transport() *http.Transport {
	return &http.Transport{
		DialContext:            d.DialContext,
		ForceAttemptHTTP2:      true, // a DialContext turns HTTP/2 off otherwise
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    64, // the default of 2 makes a relay reconnect to a busy consumer all the time
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		// All requests share one HTTP/2 connection, and a request that times out does not close it. Without a ping a
		// connection that died silently takes every delivery, until the system gives it up after some 15 minutes.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
	}
}

// A DialerOption changes how a Dialer works.
type DialerOption interface{ applyDialer(*Dialer) error }

type dialerOption func(*Dialer) error

func (o dialerOption) applyDialer(d *Dialer) error { return o(d) }

// Allow adds ranges of addresses that are dialled although they are special. Use it for consumers inside the own
// network, and for tests on loopback. An IPv4 range also allows the IPv4-mapped and NAT64 forms of its addresses. An
// IPv6 range does not allow addresses with a NAT64 prefix: they are judged by the IPv4 address in them. There is
// none by default.
func Allow(ranges ...netip.Prefix) DialerOption {
	return dialerOption(func(d *Dialer) error {
		d.allow = append(d.allow, ranges...)
		return checkRanges("Allow", ranges)
	})
}

// Deny adds ranges of addresses that are not dialled. It outweighs [Allow]. Use it for the public addresses of the own
// network, and for a cloud's internal service on a public address, such as Azure's 168.63.129.16. There is none by
// default.
func Deny(ranges ...netip.Prefix) DialerOption {
	return dialerOption(func(d *Dialer) error {
		d.deny = append(d.deny, ranges...)
		return checkRanges("Deny", ranges)
	})
}

// NAT64 adds the prefixes with which your network translates IPv6 to IPv4. An address with such a prefix is judged by
// the IPv4 address in it (RFC 6052). The lengths are 32, 40, 48, 56, 64 and 96. The prefix 64:ff9b::/96 is always
// known. Addresses in 64:ff9b:1::/48 are refused without this option, because the length of the prefix in use decides
// where the IPv4 address is.
func NAT64(prefixes ...netip.Prefix) DialerOption {
	return dialerOption(func(d *Dialer) error {
		d.nat64 = append(d.nat64, prefixes...)
		for _, p := range prefixes {
			if !p.Addr().Is6() || !slices.Contains([]int{32, 40, 48, 56, 64, 96}, p.Bits()) {
				return fmt.Errorf("webhook: option NAT64: %v is no IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits", p)
			}
		}
		return checkRanges("NAT64", prefixes)
	})
}

// Resolver sets the resolver of names. The default is net.DefaultResolver.
func Resolver(r *net.Resolver) DialerOption {
	return dialerOption(func(d *Dialer) error {
		if d.resolver = r; r == nil {
			return errors.New("webhook: option Resolver: the resolver must not be nil")
		}
		return nil
	})
}

// checkRanges refuses prefixes that would contain no address.
func checkRanges(option string, ranges []netip.Prefix) error {
	for _, p := range ranges {
		switch {
		case !p.IsValid():
			return fmt.Errorf("webhook: option %s: a prefix is not valid", option)
		case p.Addr().Is4In6():
			return fmt.Errorf("webhook: option %s: %v is IPv4-mapped, write it as an IPv4 prefix", option, p)
		}
	}
	return nil
}
