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
// a sequence. A response of an [RPC] always is, since only its end shows whether the call succeeded.
func Streams(resp *http.Response) bool {
	mediaType := mediaTypeOf(resp.Header)
	switch {
	case isRPCStream(mediaType):
		return true
	case resp.ContentLength >= 0:
		return false
	}
	switch mediaType {
	case "text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl",
		"application/x-jsonlines",
		"application/json-seq", "application/stream+json", "multipart/x-mixed-replace", "multipart/mixed",
		"application/vnd.amazon.eventstream": // of AWS, such as the tokens of Bedrock
		return true
	}
	return false
}

// SendsStream reports whether a request's body is a stream of messages of gRPC or Connect. Its sender may wait for a
// response before it writes the next message, so the body can't be read ahead.
func SendsStream(r *http.Request) bool {
	if r.Body == nil || r.Body == http.NoBody || r.GetBody != nil || r.ContentLength > 0 {
		return false
	}
	return isRPCStream(mediaTypeOf(r.Header))
}

// mediaTypeOf returns the media type of a message without its parameters, in small letters. It is empty if there is
// none.
func mediaTypeOf(h http.Header) string {
	mediaType, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return mediaType
}

// isGRPC reports whether a message of this type is one of gRPC, and not of gRPC-Web.
func isGRPC(mediaType string) bool {
	return mediaType == "application/grpc" || strings.HasPrefix(mediaType, "application/grpc+")
}

// isRPCStream reports whether a body of this type is a sequence of messages. Connect has its own type for streams
// alone: https://connectrpc.com/docs/protocol
func isRPCStream(mediaType string) bool {
	return strings.HasPrefix(mediaType, "application/grpc") || strings.HasPrefix(mediaType, "application/connect+")
}
