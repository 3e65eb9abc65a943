package profile

import (
	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// Twilio describes the Twilio APIs that take an Idempotency-Key. Error 17534 reports another payload. The same
// payload gets the first response. Other POST requests, such as those that send messages, have no key and are not
// safe to repeat: use a client without this profile for them. The retention, the length of a key, a mark of a replay
// and the response to a request that is still running are not documented.
//
// Source: https://www.twilio.com/docs/api/errors/17534
// Source: https://www.twilio.com/docs/api/errors/20500
var Twilio = redo.Profile{
	Name:     "twilio",
	Verbatim: true,
	Codes:    map[string]taxonomy.Code{"17534": taxonomy.PayloadMismatch},
}
