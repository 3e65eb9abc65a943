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
		name          string
		header, value string // "" removes the header
		reason        error
		text          string // without the package
	}{
		{"no id", "webhook-id", "", webhook.ErrMissing,
			"webhook-id is missing"},
		{"an id with a full stop", "webhook-id", "a.1", webhook.ErrMalformed,
			"webhook-id is malformed: byte 1 is a full stop, which separates the signed parts"},
		{"an id with a space", "webhook-id", "a b", webhook.ErrMalformed,
			"webhook-id is malformed: byte 1 is 0x20, only printable ASCII without spaces is allowed"},
		{"a long id", "webhook-id", strings.Repeat("a", 256), webhook.ErrMalformed,
			"webhook-id is malformed: it has 256 bytes, at most 255 are allowed"},
		{"no timestamp", "webhook-timestamp", "", webhook.ErrMissing,
			"webhook-timestamp is missing"},
		{"a timestamp with a sign", "webhook-timestamp", "+1614265330", webhook.ErrMalformed,
			"webhook-timestamp is malformed: byte 0 is 0x2B, only digits are allowed"},
		{"a negative timestamp", "webhook-timestamp", "-1", webhook.ErrMalformed,
			"webhook-timestamp is malformed: byte 0 is 0x2D, only digits are allowed"},
		{"a timestamp with a fraction", "webhook-timestamp", "1614265330.5", webhook.ErrMalformed,
			"webhook-timestamp is malformed: byte 10 is 0x2E, only digits are allowed"},
		{"a timestamp with a leading zero", "webhook-timestamp", "01614265330", webhook.ErrMalformed,
			"webhook-timestamp is malformed: it starts with a zero"},
		{"a timestamp beyond int64", "webhook-timestamp", "9223372036854775808", webhook.ErrMalformed,
			"webhook-timestamp is malformed: it is too large a number"},
		{"the largest timestamp", "webhook-timestamp", "9223372036854775807", webhook.ErrTooNew,
			"webhook-timestamp is too new: 9223372036854775807 is 9223372035240510477 seconds after the verifier's " +
				"clock, 1614265330; at most 300 are allowed"},
		{"the smallest timestamp", "webhook-timestamp", "0", webhook.ErrTooOld,
			"webhook-timestamp is too old: 0 is 1614265330 seconds before the verifier's clock, 1614265330; " +
				"at most 300 are allowed"},
		{"a timestamp that was not signed", "webhook-timestamp", "1614265331", webhook.ErrNoMatch,
			"webhook-signature matches no secret"},
		{"an id that was not signed", "webhook-id", "msg_other", webhook.ErrNoMatch,
			"webhook-signature matches no secret"},
		{"no signature", "webhook-signature", "", webhook.ErrMissing,
			"webhook-signature is missing"},
		{"a signature of spaces", "webhook-signature", "  ", webhook.ErrMalformed,
			"webhook-signature is malformed: it is empty"},
		{"a signature without a version", "webhook-signature", sharedSignature[3:], webhook.ErrMalformed,
			"webhook-signature is malformed: signature 1 has no version"},
		{"a signature of nothing", "webhook-signature", "v1,", webhook.ErrMalformed,
			"webhook-signature is malformed: no signature has the length and the base64 of its version"},
		{"a signature with loose bits", "webhook-signature", strings.TrimSuffix(sharedSignature, "E=") + "F=",
			webhook.ErrMalformed,
			"webhook-signature is malformed: no signature has the length and the base64 of its version"},
		{"a version of the future", "webhook-signature", "v2,???", webhook.ErrUnknownVersion,
			"webhook-signature has no signature of a version that is verified here"},
		{"a version that no secret covers", "webhook-signature", privateSignature, webhook.ErrUnknownVersion,
			"webhook-signature has no signature of a version that is verified here"},
		{"a version in capitals", "webhook-signature", "V1" + sharedSignature[2:], webhook.ErrUnknownVersion,
			"webhook-signature has no signature of a version that is verified here"},
		{"another signature", "webhook-signature", otherSignature, webhook.ErrNoMatch,
			"webhook-signature matches no secret"},
		{"too many signatures", "webhook-signature", strings.Repeat(otherSignature+" ", 33), webhook.ErrMalformed,
			"webhook-signature is malformed: it has more than 32 signatures"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := v.VerifyAt(vectorTime, vectorHeader(c.header, c.value), []byte(vectorBody))
			require.EqualError(t, err, "webhook: "+c.text)
			require.ErrorIs(t, err, c.reason)
			e, ok := errors.AsType[*webhook.Error](err)
			require.True(t, ok)
			require.True(t, strings.HasPrefix(c.text, e.Header+" "))
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

// A code of 32 bytes that is padded to the length of the other version's matches no secret.
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
		{"one second, two late", []webhook.VerifierOption{webhook.Tolerance(time.Second)}, 2 * time.Second,
			webhook.ErrTooOld},
		{
			"no limit to speak of", []webhook.VerifierOption{webhook.Tolerance(math.MaxInt64)},
			100 * 365 * 24 * time.Hour, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := verifier(t, secrets, c.opts...).VerifyAt(vectorTime.Add(c.moved), vectorHeader(),
				[]byte(vectorBody))
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
	require.EqualError(t, err, "webhook: body unreadable: it has 20 bytes, Content-Length is 21")
}

// Anybody can announce a large body. Its signature is checked after it has arrived.
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
	require.Greater(t, hold(webhook.DefaultMaxBody/2), uint64(webhook.DefaultMaxBody/2),
		"a body that does arrive is held")
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

// svixHeader is the vector's header under Svix's names.
func svixHeader() http.Header {
	h := http.Header{}
	for name, values := range vectorHeader() {
		h.Set(strings.Replace(name, "Webhook-", "Svix-", 1), values[0])
	}
	return h
}

func TestHeadersOfSvixAreAccepted(t *testing.T) {
	v := verifier(t, []webhook.Secret{secret(t, sharedSecret)})
	d, err := v.VerifyAt(vectorTime, svixHeader(), []byte(vectorBody))
	require.NoError(t, err)
	require.Equal(t, vectorID, d.ID)

	for _, name := range []string{"svix-id", "svix-timestamp", "svix-signature"} {
		h := svixHeader()
		h.Del(name)
		_, err := v.VerifyAt(vectorTime, h, []byte(vectorBody))
		require.EqualError(t, err, "webhook: "+name+" is missing")
		require.ErrorIs(t, err, webhook.ErrMissing)
	}
	h := svixHeader()
	h.Set("svix-signature", otherSignature)
	_, err = v.VerifyAt(vectorTime, h, []byte(vectorBody))
	require.EqualError(t, err, "webhook: svix-signature matches no secret")
	_, err = v.VerifyAt(vectorTime.Add(time.Hour), svixHeader(), []byte(vectorBody))
	require.ErrorContains(t, err, "webhook: svix-timestamp is too old: 1614265330 is 3600 seconds before")
}

func TestHeadersOfBothSetsAreRefused(t *testing.T) {
	v := verifier(t, []webhook.Secret{secret(t, sharedSecret)})
	names := []string{"id", "timestamp", "signature"}
	for _, svix := range names {
		for _, standard := range names {
			h := http.Header{}
			h.Set("svix-"+svix, svixHeader().Get("svix-"+svix))
			h.Set("webhook-"+standard, vectorHeader().Get("webhook-"+standard))
			_, err := v.VerifyAt(vectorTime, h, []byte(vectorBody))
			require.EqualError(t, err,
				"webhook: svix-"+svix+" is malformed: it was sent together with webhook-"+standard)
		}
	}
	both := vectorHeader()
	for name, values := range svixHeader() {
		both[name] = values
	}
	_, err := v.VerifyAt(vectorTime, both, []byte(vectorBody))
	require.ErrorIs(t, err, webhook.ErrMalformed, "even if both agree")
}

func TestTheErrorNamesTheSkew(t *testing.T) {
	v := verifier(t, []webhook.Secret{secret(t, sharedSecret)})
	for _, c := range []struct {
		moved, skew time.Duration
		reason      error
	}{
		{time.Hour, -time.Hour, webhook.ErrTooOld},
		{-301 * time.Second, 301 * time.Second, webhook.ErrTooNew},
	} {
		_, err := v.VerifyAt(vectorTime.Add(c.moved), vectorHeader(), []byte(vectorBody))
		e, ok := errors.AsType[*webhook.Error](err)
		require.True(t, ok)
		require.Equal(t, c.skew, e.Skew)
		require.ErrorIs(t, err, c.reason)
	}
	_, err := v.VerifyAt(vectorTime, vectorHeader("webhook-timestamp", "9223372036854775807"), nil)
	e, ok := errors.AsType[*webhook.Error](err)
	require.True(t, ok)
	require.Equal(t, 9223372036*time.Second, e.Skew, "it does not overflow")
}
