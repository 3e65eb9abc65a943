// Package null finds nil pointers behind interfaces.
package null

import "reflect"

// Is reports whether v is nil or holds a nil pointer, map, function, channel or slice.
func Is(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Map, reflect.Func, reflect.Chan, reflect.Slice:
		return r.IsNil()
	default:
		return false
	}
}

// Hidden reports whether v is not nil and holds nil, so that a comparison with nil does not find it.
func Hidden(v any) bool { return v != nil && Is(v) }
