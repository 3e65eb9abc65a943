package webhook_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/webhook"
)

// Whatever the headers hold, a refusal is an Error about one of them; and what verifies was signed, so the same claim
// signed anew has one of its signatures.
func FuzzVerify(f *testing.F) {
	f.Add(vectorID, "1614265330", sharedSignature, vectorBody)
	f.Add(vectorID, "1614265330", "v1a,x v2, "+otherSignature+" "+sharedSignature, vectorBody)
	f.Add("a.b", "-9223372036854775808", "v1,", "")
	f.Add("", "9223372036854775807", strings.Repeat("v1, ", 40), "\x00")
	secrets := []webhook.Secret{secret(f, sharedSecret), secret(f, privateKey)}
	v, s := verifier(f, secrets), signer(f, secrets)
	f.Fuzz(func(t *testing.T, id, timestamp, signatures, body string) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {signatures}}
		d, err := v.VerifyAt(vectorTime, h, []byte(body))
		if err != nil {
			e, ok := errors.AsType[*webhook.Error](err)
			require.True(t, ok)
			require.Contains(t, []string{"webhook-id", "webhook-timestamp", "webhook-signature"}, e.Header)
			require.Zero(t, d)

			// Headers that are fit to be signed verify once they are.
			seconds, bad := strconv.ParseInt(timestamp, 10, 64)
			if bad != nil || s.SetHeader(h, id, time.Unix(seconds, 0), []byte(body)) != nil {
				return
			}
			_, err = v.VerifyAt(time.Unix(seconds, 0), h, []byte(body))
			require.NoError(t, err)
			return
		}
		require.Equal(t, timestamp, strconv.FormatInt(d.Timestamp.Unix(), 10))
		made, err := s.Sign(d.ID, d.Timestamp, d.Body)
		require.NoError(t, err)
		require.Contains(t, strings.Split(signatures, " "), strings.Fields(made)[d.Secret])
	})
}

// A secret that is read has one text, and a refusal shows nothing of what was refused.
func FuzzParseSecret(f *testing.F) {
	f.Add(sharedSecret)
	f.Add(privateKey)
	f.Add("whsec_***")
	f.Add("whpk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := webhook.ParseSecret(text)
		if err != nil {
			require.ErrorIs(t, err, webhook.ErrSecret)
			if _, rest, ok := strings.Cut(text, "_"); ok && len(rest) > 16 {
				require.NotContains(t, err.Error(), rest)
			}
			return
		}
		again, err := webhook.ParseSecret(s.Reveal())
		require.NoError(t, err)
		require.Equal(t, s.Reveal(), again.Reveal())
		if !strings.HasPrefix(text, "whsk_") { // a private key has two forms
			require.Equal(t, text, s.Reveal())
		}
		require.NotContains(t, s.String(), s.Reveal()[6:])
	})
}
