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

// A refusal is an Error about one of the headers. A delivery that verifies was signed: the same claim that is signed
// again has one of its signatures. A set of headers with a header of the other set is always refused.
func FuzzVerify(f *testing.F) {
	f.Add(false, vectorID, "1614265330", sharedSignature, vectorBody, "")
	f.Add(true, vectorID, "1614265330", sharedSignature, vectorBody, "")
	f.Add(true, vectorID, "1614265330", sharedSignature, vectorBody, "Webhook-Id")
	f.Add(false, vectorID, "1614265330", sharedSignature, vectorBody, "Svix-Signature")
	f.Add(false, vectorID, "1614265330", "v1a,x v2, "+otherSignature+" "+sharedSignature, vectorBody, "X")
	f.Add(false, "a.b", "-9223372036854775808", "v1,", "", "")
	f.Add(true, "", "9223372036854775807", strings.Repeat("v1, ", 40), "\x00", "")
	secrets := []webhook.Secret{secret(f, sharedSecret), secret(f, privateKey)}
	v, s := verifier(f, secrets), signer(f, secrets)
	names := []string{
		"webhook-id", "webhook-timestamp", "webhook-signature", "svix-id", "svix-timestamp", "svix-signature",
	}
	f.Fuzz(func(t *testing.T, svix bool, id, timestamp, signatures, body, other string) {
		set, foreign := "Webhook-", "Svix-"
		if svix {
			set, foreign = foreign, set
		}
		h := http.Header{set + "Id": {id}, set + "Timestamp": {timestamp}, set + "Signature": {signatures}}
		if h[other] == nil {
			h[other] = []string{id}
		}
		d, err := v.VerifyAt(vectorTime, h, []byte(body))
		if err != nil {
			e, ok := errors.AsType[*webhook.Error](err)
			require.True(t, ok)
			require.Contains(t, names, e.Header)
			require.Equal(t, e.Skew != 0, errors.Is(err, webhook.ErrTooOld) || errors.Is(err, webhook.ErrTooNew))
			require.Zero(t, d)

			// Headers that can be signed verify once they are.
			seconds, bad := strconv.ParseInt(timestamp, 10, 64)
			h = http.Header{}
			if bad != nil || s.SetHeader(h, id, time.Unix(seconds, 0), []byte(body)) != nil {
				return
			}
			_, err = v.VerifyAt(time.Unix(seconds, 0), h, []byte(body))
			require.NoError(t, err)
			return
		}
		require.NotContains(t, []string{foreign + "Id", foreign + "Timestamp", foreign + "Signature"}, other)
		require.Equal(t, timestamp, strconv.FormatInt(d.Timestamp.Unix(), 10))
		made, err := s.Sign(d.ID, d.Timestamp, d.Body)
		require.NoError(t, err)
		require.Contains(t, strings.Split(signatures, " "), strings.Fields(made)[d.Secret])
	})
}

// A secret that is parsed has one text, and a refusal shows no part of the refused text.
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
