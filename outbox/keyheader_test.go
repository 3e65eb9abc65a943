package outbox_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/webhook"
)

// The server, the test's scripts, the client and the signer all have another name for the key's header.
func TestAnotherKeyHeaderGoesAllTheWay(t *testing.T) {
	const name = "X-Refund-Key"
	secret, err := webhook.NewSecret(nil)
	require.NoError(t, err)
	verifier, err := webhook.NewVerifier([]webhook.Secret{secret})
	require.NoError(t, err)
	profile := redo.RedoProfile()
	profile.Header = name

	var delivered []string
	refund := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := webhook.FromContext(r.Context())
		delivered = append(delivered, d.ID)
		if _, err := servertest.Effect(r.Context()); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	start := func(t *testing.T, opts ...servertest.Option) *servertest.Server {
		delivered = nil
		opts = append(opts, servertest.KeyHeader(name), servertest.Handler(verifier.Handler(refund)))
		return servertest.New(t, opts...)
	}
	signing := func(t *testing.T, srv *servertest.Server, opts ...webhook.SignerOption) outbox.Publisher {
		signer, err := webhook.NewSigner([]webhook.Secret{secret}, opts...)
		require.NoError(t, err)
		return publisher(t, once(t, redo.WithProfile(profile), redo.WithTransport(signer.Transport(srv.Transport()))))
	}
	event := func(srv *servertest.Server) outbox.Event {
		return outbox.Event{ID: "refund-re_1", Destination: srv.URL, Payload: []byte(`{"a":1}`)}
	}

	t.Run("a delivery whose response was lost is replayed", func(t *testing.T) {
		srv := start(t, servertest.Script("refund-re_1", servertest.CloseAfterEffect(), servertest.OK()))
		p := signing(t, srv, webhook.KeyHeader(name))
		require.Error(t, p.Publish(t.Context(), event(srv)))
		require.NoError(t, p.Publish(t.Context(), event(srv)))
		require.Equal(t, []string{"refund-re_1"}, delivered)
		srv.Ledger().AssertEffects(t, "refund-re_1", 1)
		for _, r := range srv.Requests() {
			require.Equal(t, "refund-re_1", r.Key)
			require.Equal(t, []string{"refund-re_1"}, r.Header["Webhook-Id"])
			require.NotContains(t, r.Header, "Idempotency-Key")
		}
	})
	t.Run("an event's own header of that name gives way to its id", func(t *testing.T) {
		srv := start(t)
		ev := event(srv)
		ev.Header = http.Header{name: {"other"}}
		require.NoError(t, signing(t, srv, webhook.KeyHeader(name)).Publish(t.Context(), ev))
		require.Equal(t, []string{"refund-re_1"}, srv.Requests()[0].Header[name])
	})
	t.Run("a signer of the default header sends nothing", func(t *testing.T) {
		srv := start(t)
		err := signing(t, srv).Publish(t.Context(), event(srv))
		require.ErrorIs(t, err, webhook.Unsigned)
		require.ErrorIs(t, err, webhook.ErrMissing)
		require.Empty(t, srv.Requests())
	})
}
