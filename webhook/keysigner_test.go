package webhook_test

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/webhook"
)

// A kms is a KeySigner over a key that it does not show.
type kms struct {
	version string
	sign    func(ctx context.Context, message []byte) ([]byte, error)
}

func (k *kms) Version() string { return k.version }

func (k *kms) Sign(ctx context.Context, message []byte) ([]byte, error) { return k.sign(ctx, message) }

// A publishing kms shows its public key.
type publishing struct {
	kms
	public ed25519.PublicKey
}

func (p *publishing) Public() ed25519.PublicKey { return p.public }

// rawKey returns the bytes of a secret's text.
func rawKey(t *testing.T, text string) []byte {
	t.Helper()
	_, encoded, _ := strings.Cut(text, "_")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	require.NoError(t, err)
	return raw
}

func hmacKMS(t *testing.T) *kms {
	t.Helper()
	raw := rawKey(t, sharedSecret)
	return &kms{"v1", func(_ context.Context, message []byte) ([]byte, error) {
		h := hmac.New(sha256.New, raw)
		h.Write(message)
		return h.Sum(nil), nil
	}}
}

func ed25519KMS(t *testing.T) *publishing {
	t.Helper()
	key := ed25519.NewKeyFromSeed(rawKey(t, privateKey))
	return &publishing{kms{"v1a", func(_ context.Context, message []byte) ([]byte, error) {
		return ed25519.Sign(key, message), nil
	}}, key.Public().(ed25519.PublicKey)}
}

func externalSecret(t *testing.T, k webhook.KeySigner) webhook.Secret {
	t.Helper()
	s, err := webhook.External(k)
	require.NoError(t, err)
	return s
}

func TestAKMSMakesThePublishedSignatures(t *testing.T) {
	ed := ed25519KMS(t)
	list := []webhook.Secret{externalSecret(t, hmacKMS(t)), externalSecret(t, ed), secret(t, sharedSecret)}
	r := newDelivery(t, "https://shop.test/")
	require.NoError(t, signer(t, list).SignRequest(r, vectorID, vectorTime, []byte(vectorBody)))
	require.Equal(t, sharedSignature+" "+privateSignature+" "+sharedSignature, r.Header.Get("webhook-signature"))

	public, hasOne := list[1].Public()
	require.True(t, hasOne)
	own, _ := secret(t, privateKey).Public()
	require.Equal(t, own.Reveal(), public.Reveal())
	_, hasOne = list[0].Public()
	require.False(t, hasOne)
	_, hasOne = externalSecret(t, &ed.kms).Public()
	require.False(t, hasOne, "a KMS that does not show its public key")
}

func TestAnExternalKeyShowsNothingAndCannotVerify(t *testing.T) {
	s := externalSecret(t, ed25519KMS(t))
	require.Empty(t, s.Reveal())
	require.Equal(t, "external_***", fmt.Sprintf("%+v", s))
	_, err := webhook.ParseSecret(s.String())
	require.ErrorIs(t, err, webhook.ErrSecret)
	_, err = webhook.NewVerifier([]webhook.Secret{s})
	require.EqualError(t, err, "webhook: secret refused: number 0 of them, external_***, can't verify")
	_, err = signer(t, []webhook.Secret{s}).Sign(vectorID, vectorTime, nil)
	require.ErrorIs(t, err, webhook.ErrSecret, "without a request there is no context")

	for want, k := range map[string]webhook.KeySigner{
		"the KeySigner is nil":                            nil,
		`a KeySigner has the unknown version "v2"`:        &kms{version: "v2"},
		"a KeySigner has a public key of 0 bytes, not 32": &publishing{kms: kms{version: "v1a"}},
		`a KeySigner has the unknown version ""`:          &kms{},
	} {
		_, err := webhook.External(k)
		require.EqualError(t, err, "webhook: secret refused: "+want)
	}
}

func TestAKMSThatFailsSendsNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		sign func(context.Context, []byte) ([]byte, error)
		code error
		want string
	}{
		{"unreachable", func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no route") },
			webhook.SigningUnavailable, "webhook: secrets unavailable: a KeySigner failed: no route"},
		{"a deleted key", func(context.Context, []byte) ([]byte, error) {
			return nil, fmt.Errorf("%w: deleted", webhook.ErrSecret)
		},
			webhook.Unsigned, "a KeySigner failed: webhook: secret refused: deleted"},
		{"half a signature", func(context.Context, []byte) ([]byte, error) { return make([]byte, 32), nil },
			webhook.Unsigned, "webhook: secret refused: a KeySigner made a signature of 32 bytes, not 64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := externalSecret(t, &kms{"v1a", c.sign})
			e := failed(t, signer(t, []webhook.Secret{secret(t, sharedSecret), k}).Transport(roundTrip(
				func(*http.Request) (*http.Response, error) {
					t.Error("it was sent")
					return nil, errors.ErrUnsupported
				})))
			require.Equal(t, c.code, e.Code)
			require.Equal(t, redo.NotApplied, e.Effect)
			require.Equal(t, 0, e.Attempts[0].WireSends)
			require.ErrorContains(t, e, c.want)
		})
	}
}

func TestAKMSHasTheContextOfTheRequest(t *testing.T) {
	type ctxKey struct{}
	k := externalSecret(t, &kms{"v1", func(ctx context.Context, _ []byte) ([]byte, error) {
		require.Equal(t, "value", ctx.Value(ctxKey{}))
		return nil, ctx.Err()
	}})
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), ctxKey{}, "value"))
	cancel()
	r := newDelivery(t, "https://shop.test/").WithContext(ctx)
	_, err := signer(t, []webhook.Secret{k}).Transport(roundTrip(nil)).RoundTrip(r) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, webhook.SigningUnavailable)
}
