package profile

import (
	"net/http"

	"github.com/redo-go/redo"
)

// Formance describes version 2 of the Formance ledger. Writes by POST and DELETE take an Idempotency-Key. A
// repetition has Idempotency-Hit: true. Another payload is a 400 with the code VALIDATION. A conflict of keys is a
// 409 with the code CONFLICT. Both codes have other meanings too. Therefore redo takes the first for a bad request,
// and leaves the effect of the second unknown. The retention and the length of a key are not documented.
//
// Source: https://github.com/formancehq/ledger/blob/main/docs/api/README.md
// Source: https://github.com/formancehq/ledger/blob/main/internal/api/common/errors.go
var Formance = redo.Profile{
	Name:     "formance",
	Verbatim: true,
	Methods:  []string{http.MethodPost, http.MethodDelete},
}
