package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"

	"github.com/redo-go/redo/webhook"
)

// The zero Dialer refuses every address that is not public.
func ExampleDialer() {
	transport := &http.Transport{DialContext: new(webhook.Dialer).DialContext}
	_, err := (&http.Client{Transport: transport}).Get("http://169.254.169.254/latest/meta-data/")
	fmt.Println(errors.Is(err, webhook.AddressRefused))
	var refused *webhook.AddressError
	if errors.As(err, &refused) {
		fmt.Println(refused)
	}
	// Output:
	// true
	// webhook: address 169.254.169.254:80 refused: link-local, 169.254.0.0/16
}

// A relay with consumers inside the company allows their range, and no other.
func ExampleTransport() {
	transport, err := webhook.Transport(
		webhook.Allow(netip.MustParsePrefix("10.20.0.0/16")),    // consumers inside the company
		webhook.Deny(netip.MustParsePrefix("168.63.129.16/32")), // a service of the cloud on a public address
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	for _, url := range []string{"http://10.30.0.1/", "http://168.63.129.16/"} {
		_, err := client.Get(url)
		fmt.Println(errors.Is(err, webhook.AddressRefused))
	}
	// Output:
	// true
	// true
}

// Tests have their destinations on loopback.
func ExampleAllow() {
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	}))
	defer shop.Close()
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	transport, err := webhook.Transport(webhook.Allow(loopback...))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := (&http.Client{Transport: transport}).Post(shop.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// 202 Accepted
}

// The public addresses of the own network may lead inside, so a relay refuses them too.
func ExampleDeny() {
	dialer, err := webhook.NewDialer(webhook.Deny(netip.MustParsePrefix("2001:4860::/32")))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = dialer.DialContext(context.Background(), "tcp", "[2001:4860::1]:443")
	fmt.Println(err)
	// Output:
	// dial tcp [2001:4860::1]:443: webhook: address [2001:4860::1]:443 refused: denied by an option
}

// A network that translates IPv6 to IPv4 with an unusual prefix names the prefix.
func ExampleNAT64() {
	dialer, err := webhook.NewDialer(webhook.NAT64(netip.MustParsePrefix("2a00:1:2::/96")))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = dialer.DialContext(context.Background(), "tcp", "[2a00:1:2::10.0.0.1]:443")
	var refused *webhook.AddressError
	if errors.As(err, &refused) {
		fmt.Println(refused.Address, "is", refused.Rule)
	}
	// Output:
	// [2a00:1:2::a00:1]:443 is private, 10.0.0.0/8
}

// The addresses of a name come from another DNS server than the system's.
func ExampleResolver() {
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("the DNS server is down")
	}}
	dialer, err := webhook.NewDialer(webhook.Resolver(resolver))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = dialer.DialContext(context.Background(), "tcp", "shop.example:443")
	fmt.Println(strings.Contains(err.Error(), "the DNS server is down"))
	// Output:
	// true
}
