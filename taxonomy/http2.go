package taxonomy

import (
	"errors"
	"reflect"
)

// refusedStream is the RST_STREAM code of a stream that was closed before any processing (RFC 9113, section
// 7).
const refusedStream = 0x7

// streamReset has the fields of net/http's own HTTP/2 stream error, which is not exported but whose As method
// fills any struct of the same shape.
type streamReset struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error makes streamReset a legal target for errors.As.
func (streamReset) Error() string { return "stream reset" }

// http2Code returns the code of an error that HTTP/2 framing tells of.
//
// net/http resends by itself what a GOAWAY's last stream ID excludes; what it can't resend it reports as
// text only, so that such a request stays a failed Connection of unknown effect. The GOAWAY that it does
// report, as an error, doesn't name the request's own stream, so it never proves that nothing was done.
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

// shapedReset reads the stream error of a golang.org/x/net/http2 Transport that was configured in place of
// the bundled one. It is exported there, but has no As method and this package imports the standard library
// alone, so it is known by its fields: names and kinds, never text.
func shapedReset(err error) (streamReset, bool) {
	v := reflect.ValueOf(err)
	if !hasFields(v, "StreamID", "Code", "Cause") ||
		v.Field(0).Kind() != reflect.Uint32 || v.Field(1).Kind() != reflect.Uint32 || v.Field(2).Kind() != reflect.Interface {
		return streamReset{}, false
	}
	return streamReset{StreamID: uint32(v.Field(0).Uint()), Code: uint32(v.Field(1).Uint())}, true
}

// isGoAway knows the GOAWAY error of net/http and of golang.org/x/net/http2 by its fields: neither has an As
// method, and net/http's is not exported.
func isGoAway(err error) bool {
	v := reflect.ValueOf(err)
	return hasFields(v, "LastStreamID", "ErrCode", "DebugData") &&
		v.Field(0).Kind() == reflect.Uint32 && v.Field(1).Kind() == reflect.Uint32 && v.Field(2).Kind() == reflect.String
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
