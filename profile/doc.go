// Package profile describes how public APIs handle idempotency, one API per file. Each fact has its public source. If
// the API does not document a fact, the profile has redo's default, and the profile's comment notes it.
//
//	client, err := redo.New(redo.WithProfile(profile.Stripe))
//
// A profile is a plain value. Copy one and change it, or write one of your own: zero fields are redo's defaults.
// [Learn] adds the facts that an API advertises in its configuration or capabilities. An API with KeyInBody takes the
// key in the request's body: give it by redo.WithKey, or derive it from the operation's name, and write it there too.
//
// The profiles are shared variables. They may be read concurrently. Do not write to them or to their maps and slices.
package profile
