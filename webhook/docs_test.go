package webhook_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/webhook"
)

// newRelayClient is the client of docs/security.md.
func newRelayClient(all *endpoints, network http.RoundTripper) (*redo.Client, error) {
	signer, err := webhook.NewSignerFor(all.byHost)
	if err != nil {
		return nil, err
	}
	return redo.New(redo.WithTransport(signer.Transport(network)), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
}

// reason returns the text that the owner of a destination may read about a failed attempt.
func reason(err error) string {
	var refused *webhook.AddressError
	switch {
	case errors.As(err, &refused):
		return "The URL does not lead to a public address." // without refused.Address
	case errors.Is(err, webhook.ClockSkew):
		return "The clock of the endpoint is wrong."
	}
	return "The endpoint could not be reached, or refused the event."
}

func TestTheOwnerOfADestinationReadsNoAddress(t *testing.T) {
	own := secret(t, sharedSecret)
	all := &endpoints{secrets: map[string][]webhook.Secret{"shop.test": {own}, "10.0.0.1": {own}}}
	late := verifier(t, []webhook.Secret{own}, atVectorTime()).Handler(http.HandlerFunc(ok))
	for _, c := range []struct {
		url     string
		network http.RoundTripper
		want    string
	}{
		{"http://10.0.0.1/", nil, "The URL does not lead to a public address."},
		{"https://shop.test/", hand(late), "The clock of the endpoint is wrong."},
		{
			"https://shop.test/", hand(http.NotFoundHandler()),
			"The endpoint could not be reached, or refused the event.",
		},
	} {
		client, err := newRelayClient(all, c.network)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		_, err = client.Do(newDelivery(t, c.url)) //nolint:bodyclose // there is none
		require.Error(t, err)
		require.Equal(t, c.want, reason(err))
	}
}

// The table of docs/security.md names each range that the Dialer refuses.
func TestTheDocsNameEachRange(t *testing.T) {
	page, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	d := &webhook.Dialer{}
	rows := regexp.MustCompile("(?m)^\\| ([a-zA-Z0-9, -]+) \\| (`.*`) \\|$").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, rows)
	named := map[string]bool{}
	for _, row := range rows {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
			p := netip.MustParsePrefix(m[1])
			require.NotEmpty(t, d.Rule(p.Addr()), m[1])
			require.NotEmpty(t, d.Rule(last(p)), m[1])
			named[m[1]] = true
		}
	}
	for _, entry := range registry {
		a := last(netip.MustParsePrefix(entry.prefix))
		if entry.prefix == "240.0.0.0/4" {
			a = a.Prev()
		}
		_, prefix, _ := strings.Cut(d.Rule(a), ", ")
		require.True(t, named[prefix] || prefix == "outside of 2000::/3", "%s is refused by %q", entry.prefix, prefix)
	}
	total := fmt.Sprintf("These %d ranges are refused", len(named))
	require.True(t, strings.Contains(string(page), total), total)
}
