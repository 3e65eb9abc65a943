package exchange

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/taxonomy"
)

func TestHowMuchOfAResponseIsRead(t *testing.T) {
	long := strings.Repeat("x", MaxErrorBody+1)
	events := http.Header{"Content-Type": {"text/event-stream"}}
	for _, c := range []struct {
		name   string
		status int
		header http.Header
		body   string
		outer  bool
		want   Reading
		head   string
		cut    error
		rest   string // the bytes that the caller reads
		end    error  // after it
	}{
		{"nothing of a success", 200, nil, "rf_1", false, Reading{}, "", nil, "rf_1", nil},
		{"all of one", 200, nil, "rf_1", false, Reading{Whole: 4}, "rf_1", nil, "rf_1", nil},
		{"all of a short one", 200, nil, "rf_1", false, Reading{Head: 4}, "rf_1", nil, "rf_1", nil},
		{
			"the head of a long one", 200, nil, "rf_11", false, Reading{Head: 4}, "rf_11", io.ErrUnexpectedEOF,
			"rf_11", nil,
		},
		{"nothing of a stream", 200, events, "data: 1", false, Reading{Head: 40}, "", nil, "data: 1", nil},
		{"the least error", 400, nil, "bad", false, Reading{}, "bad", nil, "bad", nil},
		{"an error", 503, nil, "down", false, Reading{}, "down", nil, "down", nil},
		{
			"an error, with any kind of wanted success", 503, events, "down", false, Reading{Whole: 1}, "down", nil,
			"down", nil,
		},
		{"the head of a long error", 503, nil, long, false, Reading{}, long[1:], nil, long[1:], nil},
		{"an outer client reads the rest", 503, nil, long, true, Reading{}, long[1:], io.ErrUnexpectedEOF, long, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, r := start(t, "POST", respond(c.status, c.header, c.body), time.Minute)
			x.Outer = c.outer
			resp, err := x.Send(r)
			require.NoError(t, err)
			got, err := x.Receive(resp, c.want)
			require.NoError(t, err)
			require.Equal(t, c.head, string(got.Head))
			require.Equal(t, c.cut, got.Cut)
			rest, err := io.ReadAll(resp.Body)
			require.Equal(t, c.end, err)
			require.Equal(t, c.rest, string(rest))
			require.NoError(t, resp.Body.Close())
			if !c.outer {
				require.Error(t, r.Context().Err(), "the context is released")
			}
		})
	}
}

// failing responds with a body that breaks off after its head.
func failing(status int) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		resp, err := respond(status, nil, "")(r)
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("head"), iotest.ErrReader(io.ErrUnexpectedEOF)))
		return resp, err
	}
}

func TestAResponseThatBreaksOffIsLost(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		want   Reading
		head   string
		end    error // after the head
	}{
		{"a success that is read", 200, Reading{Whole: 10}, "", nil},
		{"the head of one", 200, Reading{Head: 10}, "", nil},
		{"an error, whose head is kept", 503, Reading{}, "head", io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, r := start(t, "POST", failing(c.status), time.Minute)
			resp, err := x.Send(r)
			require.NoError(t, err)
			got, err := x.Receive(resp, c.want)
			require.Equal(t, io.ErrUnexpectedEOF, err)
			require.Equal(t, c.head, string(got.Head))
			require.Error(t, r.Context().Err())
			rest, err := io.ReadAll(resp.Body)
			require.Equal(t, c.head, string(rest), "the body can be read")
			require.Equal(t, c.end, err)
		})
	}
	t.Run("the twin: the caller sees the break of a body that it reads", func(t *testing.T) {
		x, r := start(t, "POST", failing(200), time.Minute)
		resp, err := x.Send(r)
		require.NoError(t, err)
		_, err = x.Receive(resp, Reading{})
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.Equal(t, io.ErrUnexpectedEOF, err)
		require.Error(t, r.Context().Err(), "and the context is released")
	})
}

func TestTheHeadIsReadNoFurtherThanItsLimit(t *testing.T) {
	x, r := start(t, "POST", failing(200), time.Minute)
	resp, err := x.Send(r)
	require.NoError(t, err)
	got, err := x.Receive(resp, Reading{Head: 3})
	require.NoError(t, err, "the break comes after it")
	require.Equal(t, Received{[]byte("head"), io.ErrUnexpectedEOF}, got)
}

func TestABodyThatIsNotTheCallersIsClosed(t *testing.T) {
	broken := iotest.ErrReader(io.ErrUnexpectedEOF)
	for _, c := range []struct {
		name   string
		status int
		body   io.Reader
		want   Reading
		closed int
	}{
		{"a whole one", 200, strings.NewReader("rf_1"), Reading{Whole: 4}, 1},
		{"one that is too long", 200, strings.NewReader("rf_1"), Reading{Whole: 3}, 1},
		{"one that breaks off", 200, broken, Reading{Whole: 4}, 1},
		{"a short one", 200, strings.NewReader("rf_1"), Reading{Head: 4}, 1},
		{"a head that breaks off", 200, broken, Reading{Head: 4}, 1},
		{"an error's", 503, strings.NewReader("down"), Reading{}, 1},
		{"a redirect's", 307, strings.NewReader("moved"), Reading{}, 1},
		{"the twin: the rest of a long one", 200, strings.NewReader("rf_1"), Reading{Head: 3}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			spy := &closeSpy{Reader: c.body}
			x, r := start(t, "POST", roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/next" {
					return respond(200, nil, "")(r)
				}
				return &http.Response{
					StatusCode: c.status, Body: spy, Request: r, ContentLength: -1, Header: http.Header{"Location": {"/next"}},
				}, nil
			}), 0)
			resp, err := x.Send(r)
			require.NoError(t, err)
			_, _ = x.Receive(resp, c.want)
			require.Equal(t, c.closed, spy.closed)
		})
	}
}

func TestAResponseThatIsTooLongIsRefused(t *testing.T) {
	x, r := start(t, "POST", respond(200, nil, "rf_11"), time.Minute)
	resp, err := x.Send(r)
	require.NoError(t, err)
	_, err = x.Receive(resp, Reading{Whole: 4})
	refused, ok := errors.AsType[*Refused](err)
	require.True(t, ok)
	require.Equal(t, taxonomy.Applied, refused.Effect)
	require.EqualError(t, err, "redo: the response has more than the 4 bytes of WithMaxResponse")
}

// A body that stalls ends with the clock, or with the time limit of an outer client.
func TestAStalledErrorBodyEnds(t *testing.T) {
	for _, outer := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			stalled, silent := io.Pipe()
			defer func() { _ = silent.Close() }()
			begin := time.Now()
			limit, want := time.Second, time.Second
			if outer {
				limit, want = 0, errorBodyPatience
			}
			x, r := start(t, "POST", roundTrip(func(r *http.Request) (*http.Response, error) {
				go func() {
					<-r.Context().Done()
					_ = stalled.CloseWithError(r.Context().Err())
				}()
				return &http.Response{StatusCode: 503, Body: stalled, Request: r}, nil
			}), limit)
			x.Outer = outer
			resp, err := x.Send(r)
			require.NoError(t, err)
			_, err = x.Receive(resp, Reading{})
			require.Error(t, err)
			require.Equal(t, !outer, errors.Is(err, ErrTimeout))
			require.Equal(t, want, time.Since(begin))
		})
	}
}

// The time limit of an outer client's error body ends with the reading. The caller's rest of the body has none.
func TestTheTimeLimitOfAnErrorBodyEndsWithTheReading(t *testing.T) {
	for size, closed := range map[int]int{4: 1, MaxErrorBody + 1: 0} {
		synctest.Test(t, func(t *testing.T) {
			spy := &closeSpy{Reader: strings.NewReader(strings.Repeat("x", size))}
			x, r := start(t, "POST", roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 503, Body: spy, Request: r, ContentLength: -1}, nil
			}), 0)
			x.Outer = true
			resp, err := x.Send(r)
			require.NoError(t, err)
			_, err = x.Receive(resp, Reading{})
			require.NoError(t, err)
			time.Sleep(time.Hour)
			require.Equal(t, closed, spy.closed)
		})
	}
}

// The clock does not cut a body that the caller reads.
func TestTheClockStopsWhenTheCallerReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, r := start(t, "POST", respond(200, nil, "rf_1"), time.Second)
		resp, err := x.Send(r)
		require.NoError(t, err)
		_, err = x.Receive(resp, Reading{})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, r.Context().Err())
		require.NoError(t, resp.Body.Close())
		require.Error(t, r.Context().Err())
	})
}

func TestABodyIsNotWrappedWithoutAClock(t *testing.T) {
	for limit, same := range map[time.Duration]bool{0: true, time.Minute: false} {
		x, r := start(t, "POST", respond(200, nil, "rf_1"), limit)
		resp, err := x.Send(r)
		require.NoError(t, err)
		own := resp.Body
		_, err = x.Receive(resp, Reading{})
		require.NoError(t, err)
		require.Equal(t, same, resp.Body == own)
		require.NoError(t, resp.Body.Close())
	}
}

func TestAnUpgradedConnectionStaysWritable(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) { upgrade(t, limit) })
	}
}

func upgrade(t *testing.T, limit time.Duration) {
	var written bytes.Buffer
	x, r := start(t, "GET", roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 101, Request: r, Body: struct {
			io.ReadCloser
			io.Writer
		}{io.NopCloser(strings.NewReader("")), &written}}, nil
	}), limit)
	resp, err := x.Send(r)
	require.NoError(t, err)
	_, err = x.Receive(resp, Reading{Head: 1})
	require.NoError(t, err)
	time.Sleep(time.Hour)
	require.NoError(t, r.Context().Err(), "the time limit has ended")
	_, err = io.WriteString(resp.Body.(io.Writer), "hello")
	require.NoError(t, err)
	require.Equal(t, "hello", written.String())
	require.NoError(t, resp.Body.Close())
}

func TestAnErrorOfCloseIsReturnedByARecord(t *testing.T) {
	broken := errors.New("broken")
	body := Record(&http.Response{Body: closing{strings.NewReader("rf_1"), broken}}, 4, func([]byte, bool) error { return nil })
	require.Equal(t, broken, body.Close())
	body = Record(&http.Response{Body: closing{strings.NewReader("rf_1"), nil}}, 4, func([]byte, bool) error { return nil })
	require.NoError(t, body.Close())
}

// closing is a body whose Close returns err.
type closing struct {
	io.Reader
	err error
}

func (c closing) Close() error { return c.err }

func TestRecord(t *testing.T) {
	ended := errors.New("ended")
	for _, c := range []struct {
		name  string
		limit int
		read  int // bytes that the caller reads before it closes
		body  []byte
		whole bool
	}{
		{"a body that is read to its end", 4, 5, []byte("rf_1"), true},
		{"one that is closed early", 4, 2, nil, false},
		{"one over the limit", 3, 5, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			resp := &http.Response{Body: io.NopCloser(iotest.OneByteReader(strings.NewReader("rf_1")))}
			body := Record(resp, c.limit,
				func(b []byte, whole bool) error {
					calls++
					require.Equal(t, c.body, b)
					require.Equal(t, c.whole, whole)
					return ended
				})
			_, readErr := io.CopyN(io.Discard, body, int64(c.read))
			closeErr := body.Close()
			require.True(t, errors.Is(readErr, ended) != errors.Is(closeErr, ended), "it is returned once")
			require.Equal(t, 1, calls)
		})
	}
}
