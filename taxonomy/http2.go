package taxonomy

import (
	"errors"
	"reflect"
)

// refusedStream is the RST_STREAM code of a stream that was closed before any processing (RFC 9113, section 7).
const refusedStream = 0x7

// streamReset has the fields of net/http's own HTTP/2 stream error. That error is not exported, but its As method
// fills any struct of the same shape.
type streamReset struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error makes streamReset a legal target for errors.As.
func (streamReset) Error() string { return "stream reset" }

// http2Code returns the code of an HTTP/2 framing error, and whether err is one.
//
// net/http resends the requests that a GOAWAY's last stream ID excludes. If it can't resend one, it returns an
// error of text alone, so that request is a failed Connection of unknown effect. The GOAWAY error that it does
// export doesn't name the request's stream, so it never proves that nothing was done.
func http2Code(err error) (Code, bool) {
	var reset streamReset
	if !errors.As(err, &reset) {
		found := anyError(err, func(err error) bool {
			var ok bool
			reset, ok = shapedReset(err)
			return ok
		})
		if !found {
			return GoAway, anyError(err, isGoAway)
		}
	}
	if reset.Code == refusedStream {
		return RefusedStream, true
	}
	return Reset, true
}

// shapedReset returns the stream error of a golang.org/x/net/http2 Transport, which a caller may use in place of the
// bundled one. The type is exported there, but has no As method, and this package imports the standard library
// alone. So the names and kinds of its fields are compared.
func shapedReset(err error) (streamReset, bool) {
	v := reflect.ValueOf(err)
	if !hasFields(v, "StreamID", "Code", "Cause") || !hasKinds(v, reflect.Uint32, reflect.Uint32, reflect.Interface) {
		return streamReset{}, false
	}
	return streamReset{StreamID: uint32(v.Field(0).Uint()), Code: uint32(v.Field(1).Uint())}, true
}

// isGoAway reports whether err is the GOAWAY error of net/http or of golang.org/x/net/http2. It compares fields,
// since neither has an As method and net/http's is not exported.
func isGoAway(err error) bool {
	v := reflect.ValueOf(err)
	return hasFields(v, "LastStreamID", "ErrCode", "DebugData") &&
		hasKinds(v, reflect.Uint32, reflect.Uint32, reflect.String)
}

// hasFields reports whether v is a struct of exactly these fields, in this order.
func hasFields(v reflect.Value, names ...string) bool {
	if v.Kind() != reflect.Struct || v.NumField() != len(names) {
		return false
	}
	for i, name := range names {
		if v.Type().Field(i).Name != name {
			return false
		}
	}
	return true
}

// hasKinds reports whether the fields of the struct v have these kinds, in this order.
func hasKinds(v reflect.Value, kinds ...reflect.Kind) bool {
	for i, kind := range kinds {
		if v.Field(i).Kind() != kind {
			return false
		}
	}
	return true
}
