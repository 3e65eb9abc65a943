package turn

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/redo-go/redo/store"
)

// listPatience bounds the wait for the next element of a list.
const listPatience = 30 * time.Second

// Patient yields what list yields. If list takes too long for its next element, Patient ends its context, and yields
// store.ErrUnavailable. The time of the loop's body does not count.
func Patient[T any](ctx context.Context, list func(context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		listing, cancel := context.WithCancel(ctx)
		defer cancel()
		stalled := time.AfterFunc(listPatience, cancel)
		defer stalled.Stop()
		for v, err := range list(listing) {
			stalled.Stop()
			if err != nil && listing.Err() != nil && ctx.Err() == nil {
				err = fmt.Errorf("%w: no response for %v", store.ErrUnavailable, listPatience)
			}
			if !yield(v, err) {
				return
			}
			stalled.Reset(listPatience)
		}
	}
}
