package pgoutbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// unreadable replaces a header that another program has written. No event can have its name.
var unreadable = http.Header{"": nil}

func encodeHeader(h http.Header) (string, error) {
	if h == nil {
		return "{}", nil
	}
	text, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("pgoutbox: %w", err)
	}
	return string(text), nil
}

func decodeHeader(text string) (http.Header, error) {
	if text == "{}" {
		return nil, nil
	}
	var h http.Header
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return nil, fmt.Errorf("pgoutbox: a header can't be read: %w", err)
	}
	return h, nil
}

// readable returns the deliveries whose headers can be read. The other events become dead letters. If that fails they
// keep their leases, and the next claim after these tries again.
func (q *Queue) readable(ctx context.Context, ds []outbox.Delivery) []outbox.Delivery {
	var bad []outbox.Settlement
	good := ds[:0]
	for _, d := range ds {
		if _, found := d.Event.Header[""]; !found {
			good = append(good, d)
			continue
		}
		bad = append(bad, outbox.Settlement{Lease: d.Lease, Outcome: outbox.Outcome{
			Result:  outbox.Dead,
			Failure: outbox.Failure{Code: taxonomy.Configuration, Reason: "the stored header can't be read"},
		}})
	}
	if len(bad) > 0 {
		_, _ = q.Settle(ctx, bad...)
	}
	return good
}
