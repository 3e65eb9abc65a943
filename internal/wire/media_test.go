package wire

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoStore(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, "no-cache": false, "private, x=no-store": false,
		"no-store": true, "private, No-Store": true, "no-store,private": true,
	} {
		require.Equal(t, want, NoStore(http.Header{"Cache-Control": {"max-age=0", value}}), "%q", value)
	}
	require.False(t, NoStore(nil))
}

func TestStreams(t *testing.T) {
	for _, c := range []struct {
		length      int64
		contentType string
		want        bool
	}{
		{-1, "text/event-stream", true},
		{-1, "Application/X-NDJSON; charset=utf-8", true},
		{-1, "application/grpc+proto", true},
		{-1, "application/connect+json", true},
		{-1, "application/vnd.amazon.eventstream", true},
		{-1, "application/proto", false},
		{-1, "application/json", false},
		{-1, "", false},
		{0, "text/event-stream", false},
		{7, "text/event-stream", false},
		{0, "application/grpc", true},
		{0, "application/grpc-web", true},
		{7, "application/connect+json", true},
	} {
		resp := &http.Response{ContentLength: c.length, Header: http.Header{"Content-Type": {c.contentType}}}
		require.Equal(t, c.want, Streams(resp), "%d bytes of %q", c.length, c.contentType)
	}
}

func TestSendsStream(t *testing.T) {
	pipe := func() *http.Request {
		r, _ := io.Pipe()
		return &http.Request{Body: r, ContentLength: -1, Header: http.Header{"Content-Type": {"application/connect+json"}}}
	}
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   bool
	}{
		"Connect":          {func(*http.Request) {}, true},
		"gRPC":             {func(r *http.Request) { r.Header.Set("Content-Type", "application/grpc") }, true},
		"no stated length": {func(r *http.Request) { r.ContentLength = 0 }, true},
		"a known length":   {func(r *http.Request) { r.ContentLength = 1 }, false},
		"one that can be read again": {func(r *http.Request) {
			r.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
		}, false},
		"no body":       {func(r *http.Request) { r.Body = nil }, false},
		"an empty body": {func(r *http.Request) { r.Body = http.NoBody }, false},
		"JSON":          {func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }, false},
		"lines of JSON": {func(r *http.Request) { r.Header.Set("Content-Type", "application/x-ndjson") }, false},
	} {
		r := pipe()
		c.change(r)
		require.Equal(t, c.want, SendsStream(r), name)
	}
}
