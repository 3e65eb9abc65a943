package webhook_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/webhook"
)

// registry has one row for each entry of the IANA registries of special-purpose addresses, in their order, as of
// 2025-10-09. The last rows come from the registries of the IPv4 and IPv6 address space.
//
// https://www.iana.org/assignments/iana-ipv4-special-registry
// https://www.iana.org/assignments/iana-ipv6-special-registry
var registry = []struct{ prefix, name, source, rule string }{
	{"0.0.0.0/8", "This network", "RFC 791, section 3.2", "this network"},
	{"0.0.0.0/32", "This host on this network", "RFC 1122, section 3.2.1.3", "unspecified"},
	{"10.0.0.0/8", "Private-Use", "RFC 1918", "private"},
	{"100.64.0.0/10", "Shared Address Space", "RFC 6598", "carrier-grade NAT"},
	{"127.0.0.0/8", "Loopback", "RFC 1122, section 3.2.1.3", "loopback"},
	{"169.254.0.0/16", "Link Local", "RFC 3927", "link-local"},
	{"172.16.0.0/12", "Private-Use", "RFC 1918", "private"},
	{"192.0.0.0/24", "IETF Protocol Assignments", "RFC 6890, section 2.1", "IETF protocols"},
	{"192.0.0.0/29", "IPv4 Service Continuity Prefix", "RFC 7335", "IETF protocols"},
	{"192.0.0.8/32", "IPv4 dummy address", "RFC 7600", "IETF protocols"},
	{"192.0.0.9/32", "Port Control Protocol Anycast", "RFC 7723", "IETF protocols"},
	{"192.0.0.10/32", "Traversal Using Relays around NAT Anycast", "RFC 8155", "IETF protocols"},
	{"192.0.0.170/32", "NAT64/DNS64 Discovery", "RFC 8880, RFC 7050, section 2.2", "IETF protocols"},
	{"192.0.0.171/32", "NAT64/DNS64 Discovery", "RFC 8880, RFC 7050, section 2.2", "IETF protocols"},
	{"192.0.2.0/24", "Documentation (TEST-NET-1)", "RFC 5737", "documentation"},
	{"192.31.196.0/24", "AS112-v4", "RFC 7535", "AS112"},
	{"192.52.193.0/24", "AMT", "RFC 7450", "multicast tunnels"},
	{"192.88.99.0/24", "Deprecated (6to4 Relay Anycast)", "RFC 7526", "6to4 relay"},
	{"192.88.99.2/32", "6a44-relay anycast address", "RFC 6751", "6to4 relay"},
	{"192.168.0.0/16", "Private-Use", "RFC 1918", "private"},
	{"192.175.48.0/24", "Direct Delegation AS112 Service", "RFC 7534", "AS112"},
	{"198.18.0.0/15", "Benchmarking", "RFC 2544", "benchmarking"},
	{"198.51.100.0/24", "Documentation (TEST-NET-2)", "RFC 5737", "documentation"},
	{"203.0.113.0/24", "Documentation (TEST-NET-3)", "RFC 5737", "documentation"},
	{"240.0.0.0/4", "Reserved", "RFC 1112, section 4", "reserved"},
	{"255.255.255.255/32", "Limited Broadcast", "RFC 8190, RFC 919, section 7", "broadcast"},

	{"::1/128", "Loopback Address", "RFC 4291", "loopback"},
	{"::/128", "Unspecified Address", "RFC 4291", "unspecified"},
	{"64:ff9b:1::/48", "IPv4-IPv6 Translation", "RFC 8215", "NAT64 of this network"},
	{"100::/64", "Discard-Only Address Block", "RFC 6666", "discarded"},
	{"100:0:0:1::/64", "Dummy IPv6 Prefix", "RFC 9780", "dummy"},
	{"2001::/23", "IETF Protocol Assignments", "RFC 2928", "IETF protocols"},
	{"2001::/32", "TEREDO", "RFC 4380, RFC 8190", "Teredo"},
	{"2001:1::1/128", "Port Control Protocol Anycast", "RFC 7723", "IETF protocols"},
	{"2001:1::2/128", "Traversal Using Relays around NAT Anycast", "RFC 8155", "IETF protocols"},
	{"2001:1::3/128", "DNS-SD Service Registration Protocol Anycast", "RFC 9665", "IETF protocols"},
	{"2001:2::/48", "Benchmarking", "RFC 5180", "benchmarking"},
	{"2001:3::/32", "AMT", "RFC 7450", "IETF protocols"},
	{"2001:4:112::/48", "AS112-v6", "RFC 7535", "IETF protocols"},
	{"2001:10::/28", "Deprecated (previously ORCHID)", "RFC 4843", "IETF protocols"},
	{"2001:20::/28", "ORCHIDv2", "RFC 7343", "IETF protocols"},
	{"2001:30::/28", "Drone Remote ID Protocol Entity Tags", "RFC 9374", "IETF protocols"},
	{"2001:db8::/32", "Documentation", "RFC 3849", "documentation"},
	{"2002::/16", "6to4", "RFC 3056", "6to4"},
	{"2620:4f:8000::/48", "Direct Delegation AS112 Service", "RFC 7534", "AS112"},
	{"3fff::/20", "Documentation", "RFC 9637", "documentation"},
	{"5f00::/16", "Segment Routing (SRv6) SIDs", "RFC 9602", "segment routing"},
	{"fc00::/7", "Unique-Local", "RFC 4193, RFC 8190", "private"},
	{"fe80::/10", "Link-Local Unicast", "RFC 4291", "link-local"},

	{"224.0.0.0/4", "Multicast", "RFC 5771", "multicast"},
	{"::/96", "IPv4-compatible", "RFC 4291, section 2.5.5.1", "IPv4-compatible"},
	{"::ffff:0:0:0/96", "IPv4-translated", "RFC 2765, section 2.1", "reserved"},
	{"200::/7", "Reserved (OSI NSAP)", "RFC 4048", "reserved"},
	{"4000::/3", "Reserved by IETF", "RFC 3513", "reserved"},
	{"fec0::/10", "Reserved (site-local)", "RFC 3879", "site-local"},
	{"ff00::/8", "Multicast", "RFC 4291, section 2.7", "multicast"},
}

// The entries ::ffff:0:0/96 (IPv4-mapped) and 64:ff9b::/96 (NAT64) are judged by the IPv4 address in them:
// TestAnAddressInAnAddressIsJudged.

// last returns the last address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func TestEverySpecialPurposeRangeIsRefusedAndItsPublicNeighboursAreNot(t *testing.T) {
	d := &webhook.Dialer{}
	var prefixes []netip.Prefix
	for _, row := range registry {
		prefixes = append(prefixes, netip.MustParsePrefix(row.prefix))
	}
	// public reports whether no row has the address, and IANA assigns addresses of its block.
	public := func(a netip.Addr) bool {
		for _, p := range prefixes {
			if p.Contains(a) {
				return false
			}
		}
		return a.Is4() || netip.MustParsePrefix("2000::/3").Contains(a)
	}
	passed := map[netip.Addr]bool{}
	for i, row := range registry {
		p := prefixes[i]
		require.Equal(t, p.Masked(), p, row.prefix)
		first, end := p.Addr(), last(p)
		middle := end.Prev()
		for _, a := range []netip.Addr{first, end, middle} {
			if p.Contains(a) {
				require.NotEmpty(t, d.Rule(a), "%s (%s, %s): %v", row.prefix, row.name, row.source, a)
			}
		}
		// The last address is in no narrower row, with two exceptions.
		want := row.rule + ", "
		if row.prefix == "240.0.0.0/4" {
			end = end.Prev() // broadcast
		}
		require.True(t, strings.HasPrefix(d.Rule(end), want), "%v: %q, and not %q", end, d.Rule(end), want)

		for _, a := range []netip.Addr{first.Prev(), last(p).Next()} {
			if !a.IsValid() {
				continue // the address space ends here
			}
			if public(a) {
				passed[a] = true
				require.Empty(t, d.Rule(a), "a neighbour of %s: %v", row.prefix, a)
			} else {
				require.NotEmpty(t, d.Rule(a), "a neighbour of %s: %v", row.prefix, a)
			}
		}
	}
	require.Len(t, passed, 43, "neighbours that may be dialled: %v", passed)
}

func TestAPublicAddressIsDialled(t *testing.T) {
	d := &webhook.Dialer{}
	for _, text := range []string{
		"1.1.1.1", "8.8.8.8", "93.184.215.14", "192.0.1.1", "172.32.0.1", "223.255.255.255",
		"2606:4700:4700::1111", "2a00:1450:4001:830::200e", "2001:4860:4860::8888", "2001:200::1", "2000::",
		"3ffe:ffff::1",
	} {
		require.Empty(t, d.Rule(netip.MustParseAddr(text)), text)
	}
}

func TestAnAddressInAnAddressIsJudged(t *testing.T) {
	prefix := netip.MustParsePrefix
	local, err := webhook.NewDialer(webhook.NAT64(prefix("64:ff9b:1::/48"), prefix("2a00:1:2::/96")))
	require.NoError(t, err)
	plain := &webhook.Dialer{}
	for _, c := range []struct {
		d       *webhook.Dialer
		address string
		want    string
	}{
		{plain, "::ffff:127.0.0.1", "loopback, 127.0.0.0/8"},
		{plain, "::ffff:a00:1", "private, 10.0.0.0/8"},
		{plain, "::ffff:8.8.8.8", ""},
		{plain, "::ffff:0:127.0.0.1", "reserved, outside of 2000::/3"},
		{plain, "::127.0.0.1", "IPv4-compatible, ::/96"},
		{plain, "::8.8.8.8", "IPv4-compatible, ::/96"},
		{plain, "64:ff9b::127.0.0.1", "loopback, 127.0.0.0/8"},
		{plain, "64:ff9b::169.254.169.254", "link-local, 169.254.0.0/16"},
		{plain, "64:ff9b::8.8.8.8", ""},
		{plain, "64:ff9b:0:1::8.8.8.8", "reserved, outside of 2000::/3"},
		{plain, "64:ff9b:1::8.8.8.8", "NAT64 of this network, 64:ff9b:1::/48"},
		{plain, "64:ff9b:1:808:8:800::", "NAT64 of this network, 64:ff9b:1::/48"},
		{plain, "2a00:1:2::10.0.0.1", ""}, // a prefix that only its network knows
		{local, "2a00:1:2::10.0.0.1", "private, 10.0.0.0/8"},
		{local, "2a00:1:2::8.8.8.8", ""},
		{local, "64:ff9b:1:808:8:800::", ""},
		{local, "64:ff9b:1:7f00:0:100::", "loopback, 127.0.0.0/8"},
		{local, "64:ff9b:1::8.8.8.8", "unspecified, 0.0.0.0/32"}, // a prefix of 48 bits puts the address elsewhere
		{plain, "2002:7f00:1::", "6to4, 2002::/16"},
		{plain, "2002:808:808::1", "6to4, 2002::/16"},
		{plain, "2001:0:808:808::f7f7:f7f7", "Teredo, 2001::/32"},
		{plain, "fe80::1%eth0", "link-local, fe80::/10"},
		{plain, "::1%lo", "loopback, ::1/128"},
		{plain, "2606:4700:4700::1111%eth0", ""},
	} {
		require.Equal(t, c.want, c.d.Rule(netip.MustParseAddr(c.address)), c.address)
	}
	require.Equal(t, "not an IP address", plain.Rule(netip.Addr{}))
}

// The addresses of RFC 6052, section 2.4, with 10.2.3.33 in place of 192.0.2.33.
func TestAPrefixOfEachLengthHasItsIPv4Address(t *testing.T) {
	for _, c := range []struct{ prefix, address string }{
		{"2a00:db8::/32", "2a00:db8:a02:321::"},
		{"2a00:db8:100::/40", "2a00:db8:10a:203:21::"},
		{"2a00:db8:122::/48", "2a00:db8:122:a02:3:2100::"},
		{"2a00:db8:122:300::/56", "2a00:db8:122:30a:2:321::"},
		{"2a00:db8:122:344::/64", "2a00:db8:122:344:a:203:2100::"},
		{"2a00:db8:122:344::/96", "2a00:db8:122:344::10.2.3.33"},
	} {
		private := netip.MustParsePrefix("10.2.3.33/32")
		d, err := webhook.NewDialer(webhook.NAT64(netip.MustParsePrefix(c.prefix)), webhook.Deny(private))
		require.NoError(t, err)
		require.Equal(t, "denied by an option", d.Rule(netip.MustParseAddr(c.address)), c.prefix)
	}
}

func TestOptionsAllowAndDenyRanges(t *testing.T) {
	prefix := netip.MustParsePrefix
	d, err := webhook.NewDialer(
		webhook.Allow(prefix("10.1.0.0/16"), prefix("fd00:1::/32")), webhook.Allow(prefix("127.0.0.1/32")),
		webhook.Deny(prefix("10.1.2.0/24"), prefix("168.63.129.16/32")),
	)
	require.NoError(t, err)
	for address, refused := range map[string]bool{
		"10.1.0.1": false, "10.1.255.255": false, "10.0.255.255": true, "10.2.0.0": true, "10.1.2.3": true,
		"127.0.0.1": false, "127.0.0.2": true, "::1": true,
		"fd00:1::1": false, "fd00:2::1": true, "fd00:1::1%eth0": false,
		"::ffff:10.1.0.1": false, "64:ff9b::10.1.0.1": false, "64:ff9b::10.1.2.1": true,
		"168.63.129.16": true, "168.63.129.17": false, "192.168.1.1": true,
	} {
		require.Equal(t, refused, d.Rule(netip.MustParseAddr(address)) != "", address)
	}
}

// An allowed IPv6 range may contain the prefix with which the network reaches its own IPv4 addresses.
func TestAnAllowedRangeDoesNotOpenTheNAT64PrefixInIt(t *testing.T) {
	prefix := netip.MustParsePrefix
	d, err := webhook.NewDialer(
		webhook.Allow(prefix("2a00:1::/32"), prefix("64:ff9b::/96"), prefix("192.168.7.0/24")),
		webhook.NAT64(prefix("2a00:1:2::/96")), webhook.Deny(prefix("168.63.129.16/32")),
	)
	require.NoError(t, err)
	for address, want := range map[string]string{
		"2a00:1:3::1":             "",
		"2a00:1:2::8.8.8.8":       "",
		"2a00:1:2::192.168.7.1":   "",
		"2a00:1:2::169.254.1.1":   "link-local, 169.254.0.0/16",
		"2a00:1:2::168.63.129.16": "denied by an option",
		"64:ff9b::168.63.129.16":  "denied by an option",
		"64:ff9b::10.0.0.1":       "private, 10.0.0.0/8",
	} {
		require.Equal(t, want, d.Rule(netip.MustParseAddr(address)), address)
	}
}

func TestWrongOptionsOfADialerAreNamed(t *testing.T) {
	prefix := netip.MustParsePrefix
	for _, c := range []struct {
		opts []webhook.DialerOption
		want string
	}{
		{[]webhook.DialerOption{webhook.Allow(netip.Prefix{})}, "webhook: option Allow: a prefix is not valid"},
		{[]webhook.DialerOption{webhook.Allow(prefix("::ffff:10.0.0.0/104"))},
			"webhook: option Allow: ::ffff:10.0.0.0/104 is IPv4-mapped, write it as an IPv4 prefix"},
		{[]webhook.DialerOption{webhook.NAT64(prefix("2a00::/33")), webhook.NAT64(prefix("10.0.0.0/32"))},
			"webhook: option NAT64: 2a00::/33 is no IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits\n" +
				"webhook: option NAT64: 10.0.0.0/32 is no IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits"},
		{[]webhook.DialerOption{webhook.Deny(netip.Prefix{}), webhook.Resolver(nil)},
			"webhook: option Deny: a prefix is not valid\nwebhook: option Resolver: the resolver must not be nil"},
		{[]webhook.DialerOption{nil}, "webhook: an option is nil"},
	} {
		_, err := webhook.NewDialer(c.opts...)
		require.EqualError(t, err, c.want)
		_, err = webhook.Transport(c.opts...)
		require.EqualError(t, err, c.want)
	}
}

func FuzzRule(f *testing.F) {
	for _, row := range registry {
		f.Add(netip.MustParsePrefix(row.prefix).Addr().AsSlice())
	}
	d := &webhook.Dialer{}
	private := netip.MustParsePrefix("10.0.0.0/8")
	open, err := webhook.NewDialer(webhook.Allow(private))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		rule := d.Rule(a)
		if a.IsPrivate() || a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() {
			require.NotEmpty(t, rule, a)
		}
		if a.Is4() {
			mapped := netip.AddrFrom16(a.As16())
			require.Equal(t, rule, d.Rule(mapped))
			inside := netip.MustParseAddr("64:ff9b::").As16()
			copy(inside[12:], b)
			require.Equal(t, rule, d.Rule(netip.AddrFrom16(inside)))
			require.Equal(t, rule == "" || private.Contains(a), open.Rule(a) == "")
		}
	})
}
