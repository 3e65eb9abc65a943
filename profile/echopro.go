package profile

import (
	"time"

	"github.com/redo-go/redo"
)

// EchoPro describes a server that uses the execution middleware of Echo Pro. The key is one structured-field string
// or token in a field of at most 300 bytes. It is sent as a string, since a UUID that starts with a digit is no
// token. The response is kept for Policy.ResultRetention, 24 hours by default, and the key for longer, so that
// nothing runs twice. Problem codes report each state of an operation; operation_uncertain and its like are never
// retried. A server may set another header name: change Header. A mark of a replay is not documented.
//
// Source: https://echo.labstack.com/pro/problems/idempotency-key-invalid
// Source: https://echo.labstack.com/pro/problems/operation-result-expired
var EchoPro = redo.Profile{
	Name:      "echopro",
	Quoted:    true,
	Retention: 24 * time.Hour,
}
