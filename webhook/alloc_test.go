package webhook_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/webhook"
)

// The allocations are measured: a change that raises them must change this table.
func TestAllocations(t *testing.T) {
	s, h, body := signer(t, both(t)[:1]), vectorHeader(), []byte(vectorBody)
	v := verifier(t, both(t)[:1])
	missing := vectorHeader("webhook-id", "")
	for _, c := range []struct {
		name string
		run  func() error
		want float64
	}{
		{"VerifyAt", func() error { _, err := v.VerifyAt(vectorTime, h, body); return err }, 0},
		{"Sign", func() error { _, err := s.Sign(vectorID, vectorTime, body); return err }, 2},
		{"SetHeader", func() error { return s.SetHeader(h, vectorID, vectorTime, body) }, 3},
		{"a refusal", func() error {
			_, err := v.VerifyAt(vectorTime, missing, body)
			require.Error(t, err)
			return nil
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := testing.AllocsPerRun(200, func() { require.NoError(t, c.run()) })
			if !racetest.Enabled {
				require.Equal(t, c.want, got)
			}
		})
	}
}

func both(t testing.TB) []webhook.Secret {
	t.Helper()
	return []webhook.Secret{secret(t, sharedSecret), secret(t, privateKey)}
}

// Run with: go test -run '^$' -bench . -benchmem ./webhook

func BenchmarkVerifyAt(b *testing.B) {
	for _, c := range []struct {
		name    string
		secrets []webhook.Secret
		size    int
	}{
		{"v1/1KiB", both(b)[:1], 1 << 10},
		{"v1/64KiB", both(b)[:1], 64 << 10},
		{"v1a/1KiB", both(b)[1:], 1 << 10},
	} {
		b.Run(c.name, func(b *testing.B) {
			v, h, body := verifier(b, c.secrets), http.Header{}, []byte(strings.Repeat("x", c.size))
			require.NoError(b, signer(b, c.secrets).SetHeader(h, vectorID, vectorTime, body))
			b.SetBytes(int64(c.size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.VerifyAt(vectorTime, h, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSetHeader(b *testing.B) {
	s, h, body := signer(b, both(b)[:1]), http.Header{}, []byte(strings.Repeat("x", 1<<10))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.SetHeader(h, vectorID, vectorTime, body); err != nil {
			b.Fatal(err)
		}
	}
}
