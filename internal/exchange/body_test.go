package exchange

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// A closeSpy counts how often it was closed.
type closeSpy struct {
	io.Reader
	closed int
}

func (c *closeSpy) Close() error { c.closed++; return nil }

// unrewindable returns a POST whose body has no GetBody.
func unrewindable(t *testing.T, body io.Reader) (*http.Request, *closeSpy) {
	t.Helper()
	spy := &closeSpy{Reader: body}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://bank.test/", spy)
	require.NoError(t, err)
	return req, spy
}

// attached returns the bytes that the next attempt sends.
func attached(t *testing.T, b *Body) string {
	t.Helper()
	out := b.req.Clone(t.Context())
	require.NoError(t, b.Attach(out))
	if out.Body == nil {
		return "no body"
	}
	sent, err := io.ReadAll(out.Body)
	require.NoError(t, err)
	require.NoError(t, out.Body.Close())
	if out.GetBody != nil { // net/http resends the request
		again, err := out.GetBody()
		require.NoError(t, err)
		resent, err := io.ReadAll(again)
		require.NoError(t, err)
		require.Equal(t, sent, resent)
	}
	return string(sent)
}

func TestABodyIsSentAsOftenAsItCanBeRead(t *testing.T) {
	rewindable := func(body string) *http.Request {
		req, err := http.NewRequest(http.MethodPost, "https://bank.test/", strings.NewReader(body))
		require.NoError(t, err)
		return req
	}
	short, _ := unrewindable(t, strings.NewReader("1000"))
	for name, c := range map[string]struct {
		req  *http.Request
		want string
	}{
		"one with GetBody":     {rewindable("1000"), "1000"},
		"one that is buffered": {short, "1000"},
		"an empty one":         {rewindable(""), ""},
		"none":                 {&http.Request{Method: "POST"}, "no body"},
	} {
		t.Run(name, func(t *testing.T) {
			b := BodyOf(c.req)
			require.NoError(t, b.Buffer(4))
			require.True(t, b.Replayable())
			for range 3 {
				require.Equal(t, c.want, attached(t, &b))
			}
			b.Close()
		})
	}
}

func TestABodyThatIsTooLongIsSentOnce(t *testing.T) {
	req, spy := unrewindable(t, strings.NewReader("10000"))
	b := BodyOf(req)
	require.NoError(t, b.Buffer(4))
	require.False(t, b.Replayable())
	require.Equal(t, "10000", attached(t, &b), "the head that was read is not lost")
	const text = "redo: the request body can't be replayed: set Request.GetBody, or raise WithMaxBufferedBody: "
	err := b.Attach(req.Clone(t.Context()))
	require.ErrorIs(t, err, ErrNotReplayable)
	require.EqualError(t, err, text+"it has more than the limit of 4 bytes")
	req.ContentLength = 5
	_, _, err = b.Open(4)
	require.ErrorIs(t, err, ErrNotReplayable)
	require.EqualError(t, err, text+"it has 5 bytes, and the limit is 4")
	req.ContentLength = 4 // net/http reports that the body is longer
	require.EqualError(t, b.CheckReplayable(), text+"it has more than the limit of 4 bytes")
	b.Close()
	require.Equal(t, 1, spy.closed, "the attempt closed it")
}

func TestABodyThatNoAttemptTookIsClosed(t *testing.T) {
	req, spy := unrewindable(t, strings.NewReader("1000"))
	b := BodyOf(req)
	b.Close()
	require.Equal(t, 1, spy.closed)
	none := BodyOf(nil)
	none.Close()

	req, spy = unrewindable(t, strings.NewReader("1000"))
	b = BodyOf(req)
	b.Replace([]byte("stored"))
	b.Close()
	require.Equal(t, 1, spy.closed, "once")
	require.Equal(t, "stored", attached(t, &b))
}

func TestOpenLeavesTheBodyToTheAttempts(t *testing.T) {
	for _, c := range []struct {
		limit int
		whole bool
	}{{5, true}, {4, true}, {3, false}, {0, false}} {
		req, err := http.NewRequest(http.MethodPost, "https://bank.test/", strings.NewReader("1000"))
		require.NoError(t, err)
		b := BodyOf(req)
		r, whole, err := b.Open(c.limit)
		require.NoError(t, err)
		read, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.Equal(t, "1000", string(read))
		require.Equal(t, c.whole, whole, "limit %d", c.limit)
		require.Equal(t, c.whole, b.Bytes() != nil, "a long body is not held")
		require.Equal(t, "1000", attached(t, &b))
	}
}

// Some functions GetBody seek in the request's own body, as that of azcore does.
func TestOpenLeavesABodyThatSeeksToTheAttempts(t *testing.T) {
	for _, limit := range []int{3, 4} {
		body := strings.NewReader("1000")
		req, spy := unrewindable(t, body)
		req.GetBody = func() (io.ReadCloser, error) {
			_, err := body.Seek(0, io.SeekStart)
			return io.NopCloser(body), err
		}
		b := BodyOf(req)
		r, _, err := b.Open(limit)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		for range 2 {
			require.Equal(t, "1000", attached(t, &b), "limit %d", limit)
		}
		b.Close()
		require.Equal(t, 1, spy.closed, "limit %d", limit)
	}
}

// A body that is one byte too long is known to be without a read of the next byte, which may never come.
func TestABodyIsReadNoFurtherThanItsLimit(t *testing.T) {
	stalled := func() io.Reader {
		return io.MultiReader(strings.NewReader("10000"), iotest.ErrReader(errors.New("read too far")))
	}
	req, _ := unrewindable(t, stalled())
	b := BodyOf(req)
	require.NoError(t, b.Buffer(4))
	require.False(t, b.Replayable())

	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(stalled()), nil }
	b = BodyOf(req)
	_, whole, err := b.Open(4)
	require.NoError(t, err)
	require.False(t, whole)
}

// The caller closes a body that Open left to it, and Open any other.
func TestABodyOfGetBodyIsClosedOnce(t *testing.T) {
	for _, limit := range []int{3, 4} {
		req, _ := unrewindable(t, strings.NewReader("1000"))
		spy := &closeSpy{Reader: strings.NewReader("1000")}
		req.GetBody = func() (io.ReadCloser, error) { return spy, nil }
		b := BodyOf(req)
		r, _, err := b.Open(limit)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.Equal(t, 1, spy.closed, "limit %d", limit)
	}
	req, _ := unrewindable(t, strings.NewReader("1000"))
	spy := &closeSpy{Reader: iotest.ErrReader(io.ErrUnexpectedEOF)}
	req.GetBody = func() (io.ReadCloser, error) { return spy, nil }
	b := BodyOf(req)
	_, _, err := b.Open(4)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, 1, spy.closed)
}

func TestABodyThatBreaksIsAnError(t *testing.T) {
	broken := errors.New("broken")
	req, _ := unrewindable(t, iotest.ErrReader(broken))
	b := BodyOf(req)
	require.ErrorIs(t, b.Buffer(4), broken)
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(broken)), nil }
	_, _, err := b.Open(4)
	require.ErrorIs(t, err, broken)
	req.GetBody = func() (io.ReadCloser, error) { return nil, broken }
	_, _, err = b.Open(4)
	require.ErrorIs(t, err, broken)
}

func TestErrorBody(t *testing.T) {
	for _, c := range []struct{ err, want error }{
		{nil, nil},
		{io.EOF, nil},
		{io.ErrUnexpectedEOF, io.ErrUnexpectedEOF},
		{errors.Join(io.EOF, io.ErrUnexpectedEOF), io.ErrUnexpectedEOF},
	} {
		b, err := io.ReadAll(ErrorBody([]byte("head"), c.err))
		require.Equal(t, "head", string(b))
		require.ErrorIs(t, err, c.want)
	}
}
