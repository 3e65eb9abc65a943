package webhook_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/webhook"
)

// The vectors that the specification's reference libraries publish, one for each version.
const (
	vectorID   = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorBody = `{"test": 2432232314}`

	sharedSecret     = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	sharedSignature  = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	privateKey       = "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk="
	privateSignature = "v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag=="
)

var vectorTime = time.Unix(1614265330, 0)

func secret(t testing.TB, text string) webhook.Secret {
	t.Helper()
	s, err := webhook.ParseSecret(text)
	require.NoError(t, err)
	return s
}

func verifier(t testing.TB, secrets []webhook.Secret, opts ...webhook.VerifierOption) *webhook.Verifier {
	t.Helper()
	v, err := webhook.NewVerifier(secrets, opts...)
	require.NoError(t, err)
	return v
}

func signer(t testing.TB, secrets []webhook.Secret, opts ...webhook.SignerOption) *webhook.Signer {
	t.Helper()
	s, err := webhook.NewSigner(secrets, opts...)
	require.NoError(t, err)
	return s
}

// vectorHeader is the vector's header, with changes: pairs of a name and its value, "" taking it out.
func vectorHeader(changes ...string) http.Header {
	h := http.Header{}
	h.Set("webhook-id", vectorID)
	h.Set("webhook-timestamp", "1614265330")
	h.Set("webhook-signature", sharedSignature)
	for i := 0; i < len(changes); i += 2 {
		h.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			h.Del(changes[i])
		}
	}
	return h
}

func TestThePublishedVectorsAreSignedAndVerified(t *testing.T) {
	private := secret(t, privateKey)
	public, ok := private.Public()
	require.True(t, ok)
	for _, c := range []struct {
		name      string
		sign      webhook.Secret
		verify    webhook.Secret
		signature string
	}{
		{"v1", secret(t, sharedSecret), secret(t, sharedSecret), sharedSignature},
		{"v1a by the private key", private, private, privateSignature},
		{"v1a by the public key", private, public, privateSignature},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := signer(t, []webhook.Secret{c.sign}).Sign(vectorID, vectorTime, []byte(vectorBody))
			require.NoError(t, err)
			require.Equal(t, c.signature, got)

			d, err := verifier(t, []webhook.Secret{c.verify}).
				VerifyAt(vectorTime, vectorHeader("webhook-signature", c.signature), []byte(vectorBody))
			require.NoError(t, err)
			require.Equal(t, webhook.Delivery{ID: vectorID, Timestamp: vectorTime.UTC(), Body: []byte(vectorBody)}, d)
		})
	}
}
