package webhook

import (
	"net/netip"
	"slices"
)

// An addressRange is a block of addresses that no destination may have.
type addressRange struct {
	prefix netip.Prefix
	rule   string
}

func special(prefix, rule string) addressRange {
	p := netip.MustParsePrefix(prefix)
	return addressRange{p, rule + ", " + prefix}
}

// specialRanges holds the IANA registries of special-purpose IPv4 and IPv6 addresses, multicast, and the deprecated
// blocks. The first match names the rule, so the narrower range comes first. Entries that the registry calls globally
// reachable are refused too: they are services of the network, such as the port control of its NAT, and no destination.
//
// https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry, of 2025-10-09.
var specialRanges = []addressRange{
	special("0.0.0.0/32", "unspecified"),               // RFC 1122, section 3.2.1.3
	special("0.0.0.0/8", "this network"),               // RFC 791, section 3.2
	special("10.0.0.0/8", "private"),                   // RFC 1918
	special("100.64.0.0/10", "carrier-grade NAT"),      // RFC 6598
	special("127.0.0.0/8", "loopback"),                 // RFC 1122, section 3.2.1.3
	special("169.254.0.0/16", "link-local"),            // RFC 3927; cloud metadata services
	special("172.16.0.0/12", "private"),                // RFC 1918
	special("192.0.0.0/24", "IETF protocols"),          // RFC 6890, and all entries within
	special("192.0.2.0/24", "documentation"),           // RFC 5737
	special("192.31.196.0/24", "AS112"),                // RFC 7535
	special("192.52.193.0/24", "multicast tunnels"),    // RFC 7450
	special("192.88.99.0/24", "6to4 relay"),            // RFC 7526, RFC 6751
	special("192.168.0.0/16", "private"),               // RFC 1918
	special("192.175.48.0/24", "AS112"),                // RFC 7534
	special("198.18.0.0/15", "benchmarking"),           // RFC 2544
	special("198.51.100.0/24", "documentation"),        // RFC 5737
	special("203.0.113.0/24", "documentation"),         // RFC 5737
	special("224.0.0.0/4", "multicast"),                // RFC 5771
	special("255.255.255.255/32", "broadcast"),         // RFC 919, section 7
	special("240.0.0.0/4", "reserved"),                 // RFC 1112, section 4
	special("::/128", "unspecified"),                   // RFC 4291, section 2.5.2
	special("::1/128", "loopback"),                     // RFC 4291, section 2.5.3
	special("::/96", "IPv4-compatible"),                // RFC 4291, section 2.5.5.1
	special("64:ff9b:1::/48", "NAT64 of this network"), // RFC 8215
	special("100::/64", "discarded"),                   // RFC 6666
	special("100:0:0:1::/64", "dummy"),                 // RFC 9780
	special("2001::/32", "Teredo"),                     // RFC 4380
	special("2001:2::/48", "benchmarking"),             // RFC 5180
	special("2001::/23", "IETF protocols"),             // RFC 2928, and all entries within
	special("2001:db8::/32", "documentation"),          // RFC 3849
	special("2002::/16", "6to4"),                       // RFC 3056
	special("2620:4f:8000::/48", "AS112"),              // RFC 7534
	special("3fff::/20", "documentation"),              // RFC 9637
	special("5f00::/16", "segment routing"),            // RFC 9602
	special("fc00::/7", "private"),                     // RFC 4193
	special("fe80::/10", "link-local"),                 // RFC 4291, section 2.5.6
	special("fec0::/10", "site-local"),                 // RFC 3879
	special("ff00::/8", "multicast"),                   // RFC 4291, section 2.7
}

var (
	// globalUnicast is the block from which IANA assigns global IPv6 addresses (RFC 4291, section 2.4).
	globalUnicast = netip.MustParsePrefix("2000::/3")
	// knownNAT64 is the prefix that every network may use to reach IPv4 (RFC 6052, section 2.1).
	knownNAT64 = netip.MustParsePrefix("64:ff9b::/96")
)

// rule returns why an address is refused. It returns "" if the address may be dialled. A zone is ignored, since it
// changes no address's range. An address of a NAT64 prefix is judged as the IPv4 address that the network dials, also
// if it is in an allowed IPv6 range.
func (d *Dialer) rule(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid():
		return "not an IP address"
	case within(d.deny, a):
		return "denied by an option"
	}
	for _, p := range d.nat64 {
		if p.Contains(a) {
			return d.rule(embedded(a, p.Bits()))
		}
	}
	if knownNAT64.Contains(a) {
		return d.rule(embedded(a, knownNAT64.Bits()))
	}
	if within(d.allow, a) {
		return ""
	}
	for _, r := range specialRanges {
		if r.prefix.Contains(a) {
			return r.rule
		}
	}
	if a.Is6() && !globalUnicast.Contains(a) {
		return "reserved, outside of 2000::/3"
	}
	return ""
}

func within(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// embedded returns the IPv4 address in an address with a NAT64 prefix of the given length. Byte 8 is reserved, and no
// part of it (RFC 6052, section 2.2).
func embedded(a netip.Addr, bits int) netip.Addr {
	whole := a.As16()
	var v4 [4]byte
	at := bits / 8
	for i := range v4 {
		if at == 8 {
			at++
		}
		v4[i] = whole[at]
		at++
	}
	return netip.AddrFrom4(v4)
}
