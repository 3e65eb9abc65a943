package wire

import (
	"mime"
	"net/http"
	"strings"
)

// NoStore reports whether a response must not be stored (RFC 9111 section 5.2.2.5).
func NoStore(h http.Header) bool {
	for _, line := range h["Cache-Control"] {
		for directive := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(directive), "no-store") {
				return true
			}
		}
	}
	return false
}

// Streams reports whether a response is meant to be read as it comes: its length is unknown, and its type is that of
// a sequence.
func Streams(resp *http.Response) bool {
	if resp.ContentLength >= 0 {
		return false
	}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch mediaType {
	case "text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl",
		"application/x-jsonlines",
		"application/json-seq", "application/stream+json", "multipart/x-mixed-replace", "multipart/mixed",
		"application/vnd.amazon.eventstream": // of AWS, such as the tokens of Bedrock
		return true
	}
	// Connect has this type for its streams alone: https://connectrpc.com/docs/protocol
	return strings.HasPrefix(mediaType, "application/grpc") || strings.HasPrefix(mediaType, "application/connect+")
}
