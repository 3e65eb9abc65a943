package webhook_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/webhook"
)

func TestConstructorsNameWhatIsWrong(t *testing.T) {
	good := []webhook.Secret{secret(t, sharedSecret)}
	public, _ := secret(t, privateKey).Public()
	for _, c := range []struct {
		name    string
		secrets []webhook.Secret
		opts    []webhook.VerifierOption
		want    string
	}{
		{"no secret", nil, nil, "webhook: secret refused: there is none"},
		{
			"a zero secret", []webhook.Secret{good[0], {}}, nil,
			"webhook: secret refused: number 1 of them is the zero Secret",
		},
		{"too many", make([]webhook.Secret, 33), nil, "webhook: secret refused: there are 33, at most 32 are allowed"},
		{"nil option", good, []webhook.VerifierOption{nil}, "webhook: an option is nil"},
		{"several", good,
			[]webhook.VerifierOption{webhook.Tolerance(time.Second - 1), webhook.MaxBody(-1), webhook.Clock(nil),
				webhook.Refused(nil)},
			"webhook: option Tolerance: 999.999999ms is less than a second\nwebhook: option MaxBody: -1 is negative\n" +
				"webhook: option Refused: the function must not be nil\nwebhook: option Clock: the " +
				"function must not be nil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := webhook.NewVerifier(c.secrets, c.opts...)
			require.EqualError(t, err, c.want)
		})
	}
	_, err := webhook.NewVerifier([]webhook.Secret{public})
	require.NoError(t, err)
	_, err = webhook.NewSigner([]webhook.Secret{public})
	require.ErrorIs(t, err, webhook.ErrSecret)
	require.EqualError(t, err, "webhook: secret refused: number 0 of them, whpk_***, can't sign")
	_, err = webhook.NewSigner(good, nil)
	require.EqualError(t, err, "webhook: an option is nil")
	_, err = webhook.NewSigner(good, webhook.MaxBody(-1))
	require.EqualError(t, err, "webhook: option MaxBody: -1 is negative")
	_, err = webhook.NewSigner(good, webhook.KeyHeader("X Key"))
	require.EqualError(t, err, `webhook: option KeyHeader: "X Key" is not a header name`)
	_, err = webhook.NewSigner(good, webhook.KeyHeader("Authorization"))
	require.EqualError(t, err, "webhook: option KeyHeader: the header Authorization carries credentials")
}

func TestTheListOfSecretsIsCopied(t *testing.T) {
	list := []webhook.Secret{secret(t, sharedSecret)}
	v, s := verifier(t, list), signer(t, list)
	list[0] = secret(t, privateKey)
	got, err := s.Sign(vectorID, vectorTime, []byte(vectorBody))
	require.NoError(t, err)
	require.Equal(t, sharedSignature, got)
	_, err = v.VerifyAt(vectorTime, vectorHeader(), []byte(vectorBody))
	require.NoError(t, err)
}
