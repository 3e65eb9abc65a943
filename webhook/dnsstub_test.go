package webhook_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A dnsStub is a DNS server on loopback that serves queries for A records. It has none of another type.
type dnsStub struct {
	records []netip.Addr // the address of the first lookup, of the second and so on; the last one stays
	lookups atomic.Int32
}

// resolver starts the server and returns a resolver that queries it alone.
func (s *dnsStub) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		<-done
	})
	go func() {
		defer close(done)
		query := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			if reply := s.reply(query[:n]); reply != nil {
				conn.WriteTo(reply, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// reply builds a message by RFC 1035, section 4: the query's header and question, and one A record if that was asked.
func (s *dnsStub) reply(query []byte) []byte {
	const header = 12
	end := header
	for end < len(query) && query[end] != 0 { // labels, up to the root
		end += int(query[end]) + 1
	}
	if end += 5; end > len(query) { // the root, type and class
		return nil
	}
	reply := append([]byte(nil), query[:end]...)
	reply[2], reply[3] = 0x84, 0 // an authoritative response without an error
	clear(reply[6:header])       // no records yet
	if binary.BigEndian.Uint16(query[end-4:]) != 1 {
		return reply
	}
	n := int(s.lookups.Add(1))
	address := s.records[min(n, len(s.records))-1].As4()
	reply[7] = 1
	reply = append(reply, 0xC0, header, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // its name, A, IN, a TTL of 0, 4 bytes
	return append(reply, address[:]...)
}
