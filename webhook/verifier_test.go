package webhook_test

import (
	"encoding/base64"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/webhook"
)

const otherSignature = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="

func TestARefusalNamesTheHeaderAndTheReason(t *testing.T) {
	v := verifier(t, []webhook.Secret{secret(t, sharedSecret)})
	for _, c := range []struct {
		name    string
		changes []string
		header  string
		reason  error
		text    string
	}{
		{"no id", []string{"webhook-id", ""}, "webhook-id", webhook.ErrMissing, "webhook: webhook-id is missing"},
		{"an id with a full stop", []string{"webhook-id", "a.1"}, "webhook-id", webhook.ErrMalformed,
			"webhook: webhook-id is malformed: byte 1 is a full stop, which separates the signed parts"},
		{"an id with a space", []string{"webhook-id", "a b"}, "webhook-id", webhook.ErrMalformed,
			"webhook: webhook-id is malformed: byte 1 is 0x20, only printable ASCII without spaces is allowed"},
		{"a long id", []string{"webhook-id", strings.Repeat("a", 256)}, "webhook-id", webhook.ErrMalformed,
			"webhook: webhook-id is malformed: it has 256 bytes, at most 255 are allowed"},
		{"no timestamp", []string{"webhook-timestamp", ""}, "webhook-timestamp", webhook.ErrMissing,
			"webhook: webhook-timestamp is missing"},
		{"a timestamp with a sign", []string{"webhook-timestamp", "+1614265330"}, "webhook-timestamp", webhook.ErrMalformed,
			"webhook: webhook-timestamp is malformed: byte 0 is 0x2B, only digits are allowed"},
		{"a negative timestamp", []string{"webhook-timestamp", "-1"}, "webhook-timestamp", webhook.ErrMalformed,
			"webhook: webhook-timestamp is malformed: byte 0 is 0x2D, only digits are allowed"},
		{"a timestamp with a fraction", []string{"webhook-timestamp", "1614265330.5"}, "webhook-timestamp", webhook.ErrMalformed,
			"webhook: webhook-timestamp is malformed: byte 10 is 0x2E, only digits are allowed"},
		{"a timestamp with a leading zero", []string{"webhook-timestamp", "01614265330"}, "webhook-timestamp", webhook.ErrMalformed,
			"webhook: webhook-timestamp is malformed: it starts with a zero"},
		{"a timestamp beyond int64", []string{"webhook-timestamp", "9223372036854775808"}, "webhook-timestamp", webhook.ErrMalformed,
			"webhook: webhook-timestamp is malformed: it is too large a number"},
		{"the largest timestamp", []string{"webhook-timestamp", "9223372036854775807"}, "webhook-timestamp", webhook.ErrTooNew,
			"webhook: webhook-timestamp is too new: 9223372035240510477 seconds after now, at most 300 are allowed"},
		{"the smallest timestamp", []string{"webhook-timestamp", "0"}, "webhook-timestamp", webhook.ErrTooOld,
			"webhook: webhook-timestamp is too old: 1614265330 seconds before now, at most 300 are allowed"},
		{"a timestamp that was not signed", []string{"webhook-timestamp", "1614265331"}, "webhook-signature", webhook.ErrNoMatch,
			"webhook: webhook-signature matches no secret"},
		{"an id that was not signed", []string{"webhook-id", "msg_other"}, "webhook-signature", webhook.ErrNoMatch,
			"webhook: webhook-signature matches no secret"},
		{"no signature", []string{"webhook-signature", ""}, "webhook-signature", webhook.ErrMissing,
			"webhook: webhook-signature is missing"},
		{"a signature of spaces", []string{"webhook-signature", "  "}, "webhook-signature", webhook.ErrMalformed,
			"webhook: webhook-signature is malformed: it is empty"},
		{"a signature without a version", []string{"webhook-signature", sharedSignature[3:]}, "webhook-signature", webhook.ErrMalformed,
			"webhook: webhook-signature is malformed: signature 1 has no version"},
		{"a signature of nothing", []string{"webhook-signature", "v1,"}, "webhook-signature", webhook.ErrMalformed,
			"webhook: webhook-signature is malformed: no signature has the length and the base64 of its version"},
		{"a signature with loose bits", []string{"webhook-signature", strings.TrimSuffix(sharedSignature, "E=") + "F="}, "webhook-signature",
			webhook.ErrMalformed, "webhook: webhook-signature is malformed: no signature has the length and the base64 of its version"},
		{"a version of the future", []string{"webhook-signature", "v2,???"}, "webhook-signature", webhook.ErrUnknownVersion,
			"webhook: webhook-signature has no signature of a version that is verified here"},
		{"a version that no secret covers", []string{"webhook-signature", privateSignature}, "webhook-signature", webhook.ErrUnknownVersion,
			"webhook: webhook-signature has no signature of a version that is verified here"},
		{"a version in capitals", []string{"webhook-signature", "V1" + sharedSignature[2:]}, "webhook-signature", webhook.ErrUnknownVersion,
			"webhook: webhook-signature has no signature of a version that is verified here"},
		{"another signature", []string{"webhook-signature", otherSignature}, "webhook-signature", webhook.ErrNoMatch,
			"webhook: webhook-signature matches no secret"},
		{"too many signatures", []string{"webhook-signature", strings.Repeat(otherSignature+" ", 33)}, "webhook-signature",
			webhook.ErrMalformed, "webhook: webhook-signature is malformed: it has more than 32 signatures"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := v.VerifyAt(vectorTime, vectorHeader(c.changes...), []byte(vectorBody))
			require.EqualError(t, err, c.text)
			require.ErrorIs(t, err, c.reason)
			e, ok := errors.AsType[*webhook.Error](err)
			require.True(t, ok)
			require.Equal(t, c.header, e.Header)
			require.Zero(t, d)
			require.NotContains(t, err.Error(), sharedSignature[3:])
		})
	}
}

func TestAHeaderSentTwiceIsMalformed(t *testing.T) {
	v := verifier(t, []webhook.Secret{secret(t, sharedSecret)})
	for _, name := range []string{"Webhook-Id", "Webhook-Timestamp"} {
		h := vectorHeader()
		h[name] = append(h[name], h[name]...)
		_, err := v.VerifyAt(vectorTime, h, []byte(vectorBody))
		require.ErrorIs(t, err, webhook.ErrMalformed)
		require.EqualError(t, err, "webhook: "+strings.ToLower(name)+" is malformed: it was sent 2 times")
	}
}

func TestOneGoodSignatureIsEnough(t *testing.T) {
	v := verifier(t, []webhook.Secret{secret(t, sharedSecret)})
	for _, lines := range [][]string{
		{otherSignature + " " + sharedSignature},
		{"v1, v2,x y,z " + sharedSignature + "  " + otherSignature},
		{privateSignature, otherSignature, sharedSignature},
	} {
		h := vectorHeader()
		h["Webhook-Signature"] = lines
		_, err := v.VerifyAt(vectorTime, h, []byte(vectorBody))
		require.NoError(t, err)
	}
}

// A code of 32 bytes, stretched to the length of the other version's, is nobody's signature.
func TestASignatureCountsForItsOwnVersionAlone(t *testing.T) {
	code, err := base64.StdEncoding.DecodeString(sharedSignature[3:])
	require.NoError(t, err)
	stretched := "v1a," + base64.StdEncoding.EncodeToString(append(code, make([]byte, 32)...))
	_, err = verifier(t, both(t)).VerifyAt(vectorTime, vectorHeader("webhook-signature", stretched), []byte(vectorBody))
	require.ErrorIs(t, err, webhook.ErrNoMatch)
}

func TestAnyByteOfTheBodyCounts(t *testing.T) {
	v := verifier(t, []webhook.Secret{secret(t, sharedSecret)})
	for i := range vectorBody {
		body := []byte(vectorBody)
		body[i] ^= 1
		_, err := v.VerifyAt(vectorTime, vectorHeader(), body)
		require.ErrorIs(t, err, webhook.ErrNoMatch)
	}
	_, err := v.VerifyAt(vectorTime, vectorHeader(), nil)
	require.ErrorIs(t, err, webhook.ErrNoMatch)
}

func TestTheToleranceIsAsGoodAsItsLastSecond(t *testing.T) {
	secrets := []webhook.Secret{secret(t, sharedSecret)}
	for _, c := range []struct {
		name   string
		opts   []webhook.VerifierOption
		moved  time.Duration
		reason error
	}{
		{"five minutes late", nil, 5 * time.Minute, nil},
		{"a fraction more", nil, 5*time.Minute + 999*time.Millisecond, nil},
		{"a second more", nil, 5*time.Minute + time.Second, webhook.ErrTooOld},
		{"five minutes early", nil, -5 * time.Minute, nil},
		{"a second earlier", nil, -5*time.Minute - time.Second, webhook.ErrTooNew},
		{"one second, one late", []webhook.VerifierOption{webhook.Tolerance(time.Second)}, time.Second, nil},
		{"one second, two late", []webhook.VerifierOption{webhook.Tolerance(time.Second)}, 2 * time.Second, webhook.ErrTooOld},
		{"no limit to speak of", []webhook.VerifierOption{webhook.Tolerance(math.MaxInt64)}, 100 * 365 * 24 * time.Hour, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := verifier(t, secrets, c.opts...).VerifyAt(vectorTime.Add(c.moved), vectorHeader(), []byte(vectorBody))
			require.ErrorIs(t, err, c.reason)
		})
	}
	_, err := verifier(t, secrets).VerifyAt(time.Time{}, vectorHeader(), []byte(vectorBody))
	require.ErrorIs(t, err, webhook.ErrTooNew, "a clock that is not set is no licence")
}

func TestRotationNeedsNoMomentAtWhichBothSidesSwitch(t *testing.T) {
	old, next := secret(t, sharedSecret), secret(t, privateKey)
	public, _ := next.Public()
	both := verifier(t, []webhook.Secret{public, old})
	for _, c := range []struct {
		signs   []webhook.Secret
		matched int
	}{
		{[]webhook.Secret{old}, 1},
		{[]webhook.Secret{old, next}, 0},
		{[]webhook.Secret{next}, 0},
	} {
		h := http.Header{}
		require.NoError(t, signer(t, c.signs).SetHeader(h, "evt_1", vectorTime, []byte("body")))
		require.Len(t, strings.Fields(h.Get("webhook-signature")), len(c.signs))
		d, err := both.VerifyAt(vectorTime, h, []byte("body"))
		require.NoError(t, err)
		require.Equal(t, c.matched, d.Secret)
	}
}

// post is a delivery of the vector.
func post(body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/webhooks", body)
	r.Header = vectorHeader()
	return r
}

func atVectorTime() webhook.Option { return webhook.Clock(func() time.Time { return vectorTime }) }

func TestTheBodyCanBeReadAgain(t *testing.T) {
	v := verifier(t, []webhook.Secret{secret(t, sharedSecret)}, atVectorTime(), webhook.MaxBody(len(vectorBody)))
	for name, body := range map[string]io.Reader{
		"of known length":   strings.NewReader(vectorBody),
		"of unknown length": io.MultiReader(strings.NewReader(vectorBody)),
		"byte by byte":      iotest.OneByteReader(strings.NewReader(vectorBody)),
	} {
		t.Run(name, func(t *testing.T) {
			r := post(body)
			d, err := v.Verify(r)
			require.NoError(t, err)
			require.Equal(t, vectorBody, string(d.Body))
			read, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.Equal(t, vectorBody, string(read))
		})
	}
}

func TestABodyIsReadOnlyWhereItMayCountAndNoFurtherThanAllowed(t *testing.T) {
	v := verifier(t, []webhook.Secret{secret(t, sharedSecret)}, atVectorTime(), webhook.MaxBody(len(vectorBody)-1))
	never := iotest.ErrReader(errors.New("it was read"))

	r := post(never)
	r.Header.Set("webhook-timestamp", "1")
	_, err := v.Verify(r)
	require.ErrorIs(t, err, webhook.ErrTooOld)

	r = post(never)
	r.ContentLength = int64(len(vectorBody))
	_, err = v.Verify(r)
	require.EqualError(t, err, "webhook: body too large: it has more than 19 bytes")

	endless := &counting{Reader: endlessReader{}}
	_, err = v.Verify(post(endless))
	require.ErrorIs(t, err, webhook.ErrTooLarge)
	require.LessOrEqual(t, endless.n, 512)

	_, err = v.VerifyAt(vectorTime, vectorHeader(), []byte(vectorBody))
	require.ErrorIs(t, err, webhook.ErrTooLarge)
}

func TestABodyThatBreaksOffIsUnreadable(t *testing.T) {
	v := verifier(t, []webhook.Secret{secret(t, sharedSecret)}, atVectorTime())
	_, err := v.Verify(post(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(vectorBody)))))
	require.ErrorIs(t, err, webhook.ErrBody)
	require.ErrorIs(t, err, iotest.ErrTimeout)

	r := post(strings.NewReader(vectorBody))
	r.ContentLength++
	_, err = v.Verify(r)
	require.EqualError(t, err, "webhook: body unreadable: it has 20 bytes, Content-Length says 21")
}

// Anybody can announce a large body: its signature is checked only after it has arrived.
func TestABodyTakesMemoryAsItArrives(t *testing.T) {
	v := verifier(t, []webhook.Secret{secret(t, sharedSecret)}, atVectorTime())
	hold := func(arrived int) uint64 {
		data := strings.NewReader(strings.Repeat("x", arrived))
		r := post(io.MultiReader(data, iotest.ErrReader(io.ErrUnexpectedEOF)))
		r.ContentLength = webhook.DefaultMaxBody
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := v.Verify(r)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, webhook.ErrBody)
		return after.TotalAlloc - before.TotalAlloc
	}
	require.Less(t, hold(100), uint64(80<<10))
	require.Greater(t, hold(webhook.DefaultMaxBody/2), uint64(webhook.DefaultMaxBody/2), "a body that does arrive is held")
}

func TestAnEmptyBodyIsSignedLikeAnyOther(t *testing.T) {
	secrets := []webhook.Secret{secret(t, sharedSecret)}
	v, s := verifier(t, secrets, atVectorTime(), webhook.MaxBody(0)), signer(t, secrets)
	r := post(http.NoBody)
	require.NoError(t, s.SetHeader(r.Header, "evt_1", vectorTime, nil))
	d, err := v.Verify(r)
	require.NoError(t, err)
	require.Empty(t, d.Body)
	require.Equal(t, http.NoBody, r.Body)
}

type endlessReader struct{}

func (endlessReader) Read(b []byte) (int, error) { return len(b), nil }

type counting struct {
	io.Reader
	n int
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += n
	return n, err
}
