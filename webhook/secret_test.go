package webhook_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/webhook"
)

func TestWhatIsNoSecretIsRefusedWithoutShowingIt(t *testing.T) {
	encode := func(n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xA7}, n)) }
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "it starts with none of whsec_, whsk_ and whpk_"},
		{"no prefix", encode(24), "it starts with none of whsec_, whsk_ and whpk_"},
		{"prefix in capitals", "WHSEC_" + encode(24), "it starts with none of whsec_, whsk_ and whpk_"},
		{"nothing else", "whsec_", "whsec_: it has 0 bytes, 24 to 64 are allowed"},
		{"too short", "whsec_" + encode(23), "whsec_: it has 23 bytes, 24 to 64 are allowed"},
		{"too long", "whsec_" + encode(65), "whsec_: it has 65 bytes, 24 to 64 are allowed"},
		{"no padding", "whsec_" + strings.TrimRight(encode(25), "="), "whsec_: the rest is not base64 with padding"},
		{"another alphabet", "whsec_" + strings.Repeat("-_", 16), "whsec_: the rest is not base64 with padding"},
		{"masked", "whsec_***", "whsec_: the rest is not base64 with padding"},
		{"a line break", "whsec_" + encode(24) + "\n", "whsec_: it holds a line break"},
		{"a short seed", "whsk_" + encode(31), "whsk_: 31 bytes are no Ed25519 key of this kind"},
		{"a seed and another's public key", "whsk_" + encode(64), "whsk_: its public half is not that of its seed"},
		{"a long public key", "whpk_" + encode(64), "whpk_: 64 bytes are no Ed25519 key of this kind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := webhook.ParseSecret(c.text)
			require.ErrorIs(t, err, webhook.ErrSecret)
			require.EqualError(t, err, "webhook: secret refused: "+c.want)
			require.True(t, s.IsZero())
		})
	}
	for _, n := range []int{24, 64} {
		_, err := webhook.ParseSecret("whsec_" + encode(n))
		require.NoError(t, err)
	}
}

func TestASecretNeverPrints(t *testing.T) {
	private := secret(t, privateKey)
	public, _ := private.Public()
	for _, s := range []webhook.Secret{secret(t, sharedSecret), private, public} {
		prefix, encoded, _ := strings.Cut(s.Reveal(), "_")
		raw, err := base64.StdEncoding.DecodeString(encoded)
		require.NoError(t, err)
		type config struct {
			S webhook.Secret
			s webhook.Secret
		}
		c := config{s, s}
		v := verifier(t, []webhook.Secret{s})

		var out strings.Builder
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p"} {
			for _, arg := range []any{s, &s, c, &c, []webhook.Secret{s}, map[string]webhook.Secret{"k": s}, v, *v} {
				fmt.Fprintf(&out, verb+"\n", arg)
			}
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("starting", "secret", s, "config", c, "verifier", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("starting", "secret", s, "config", c, "verifier", v)
		encodedJSON, err := json.Marshal(map[string]any{"s": s, "c": c})
		require.NoError(t, err)
		out.Write(encodedJSON)
		out.WriteString(s.String() + s.GoString() + s.LogValue().String())

		for _, form := range []string{
			encoded, string(raw), fmt.Sprintf("%x", raw), fmt.Sprintf("%X", raw), fmt.Sprintf("%d", raw),
			strings.Trim(fmt.Sprintf("%#v", raw), "[]byte{}"), fmt.Sprint(raw[:8])[1:20],
		} {
			require.NotContains(t, out.String(), form)
		}
		require.Equal(t, prefix+"_***", s.String())
		require.Contains(t, string(encodedJSON), `"s":"`+prefix+`_***"`)
	}
	require.Equal(t, "no secret", webhook.Secret{}.String())
	require.Empty(t, webhook.Secret{}.Reveal())
}

func TestASecretComesFromAConfiguration(t *testing.T) {
	var c struct{ Secret webhook.Secret }
	require.NoError(t, json.Unmarshal([]byte(`{"Secret":"`+sharedSecret+`"}`), &c))
	require.Equal(t, sharedSecret, c.Secret.Reveal())

	masked, err := json.Marshal(c)
	require.NoError(t, err)
	require.ErrorIs(t, json.Unmarshal(masked, &c), webhook.ErrSecret, "masked text is not read back as a secret")
	require.Equal(t, sharedSecret, c.Secret.Reveal(), "and leaves the earlier one")
}

func TestNewSecretsAreReadBack(t *testing.T) {
	made, err := webhook.NewSecret(strings.NewReader(strings.Repeat("r", 32)))
	require.NoError(t, err)
	require.Equal(t, "whsec_"+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("r"), 32)), made.Reveal())
	require.Equal(t, made.Reveal(), secret(t, made.Reveal()).Reveal())
	_, ok := made.Public()
	require.False(t, ok, "a shared secret has no public half")

	private, err := webhook.NewPrivate(nil)
	require.NoError(t, err)
	public, ok := private.Public()
	require.True(t, ok)
	again, ok := secret(t, public.Reveal()).Public()
	require.True(t, ok)
	require.Equal(t, public.Reveal(), again.Reveal())
	other, err := webhook.NewPrivate(nil)
	require.NoError(t, err)
	require.NotEqual(t, private.Reveal(), other.Reveal())

	dry := errors.New("no randomness")
	_, err = webhook.NewSecret(iotest.ErrReader(dry))
	require.ErrorIs(t, err, dry)
	_, err = webhook.NewPrivate(iotest.ErrReader(dry))
	require.ErrorIs(t, err, dry)
	_, ok = webhook.Secret{}.Public()
	require.False(t, ok)
}

func TestAPrivateKeyIsReadInBothOfItsForms(t *testing.T) {
	seed := bytes.Repeat([]byte{7}, ed25519.SeedSize)
	short := secret(t, "whsk_"+base64.StdEncoding.EncodeToString(seed))
	long := secret(t, "whsk_"+base64.StdEncoding.EncodeToString(ed25519.NewKeyFromSeed(seed)))
	require.Equal(t, short.Reveal(), long.Reveal())
}
