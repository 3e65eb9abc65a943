package outboxtest

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
)

func none([]outbox.Lease) []outbox.Lease { return nil }

// outcomes changes each outcome that is settled.
func outcomes(change func(*outbox.Outcome)) func([]outbox.Settlement) []outbox.Settlement {
	return func(ended []outbox.Settlement) []outbox.Settlement {
		for i := range ended {
			change(&ended[i].Outcome)
		}
		return ended
	}
}

func firstOnly(b *broken) {
	b.settle = func(ended []outbox.Settlement) []outbox.Settlement { return ended[:min(1, len(ended))] }
}

func eventByEvent(b *broken) {
	b.batch = func(tx *memoutbox.Tx, evs []outbox.Event) (ids []string, err error) {
		for _, ev := range evs {
			id, err := b.Queue.Enqueue(context.Background(), tx, ev)
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		return ids, nil
	}
}

func unlimited(b *broken) {
	b.claim = func(c outbox.Claim) outbox.Claim { c.Room, c.PerDestination = nil, 0; return c }
}

// putBack releases the claimed events that keep does not hold for.
func (b *broken) putBack(ds []outbox.Delivery, keep func(outbox.Delivery) bool) []outbox.Delivery {
	return slices.DeleteFunc(ds, func(d outbox.Delivery) bool {
		if keep(d) {
			return false
		}
		_, _ = b.Queue.Settle(context.Background(), outbox.Settlement{Lease: d.Lease, Outcome: released})
		return true
	})
}

func keyOnly(ev outbox.Event) string           { return ev.OrderingKey }
func destinationAndKey(ev outbox.Event) string { return ev.Destination + "\x00" + ev.OrderingKey }

// oneOf keeps the first event of each line in a claim.
func (b *broken) oneOf(line func(outbox.Event) string) func([]outbox.Delivery) []outbox.Delivery {
	return func(ds []outbox.Delivery) []outbox.Delivery {
		seen := map[string]bool{}
		return b.putBack(ds, func(d outbox.Delivery) bool {
			l := line(d.Event)
			defer func() { seen[l] = true }()
			return d.Event.OrderingKey == "" || !seen[l]
		})
	}
}

type entries = iter.Seq2[outbox.Entry, error]

// each changes every entry of a list.
func each(change func(*outbox.Entry)) func(outbox.Selection, entries) entries {
	return func(_ outbox.Selection, list entries) entries {
		return func(yield func(outbox.Entry, error) bool) {
			for e, err := range list {
				if change(&e); !yield(e, err) {
					return
				}
			}
		}
	}
}

func page(_ outbox.Selection, list entries) entries {
	return func(yield func(outbox.Entry, error) bool) {
		n := 0
		for e, err := range list {
			if n++; n > 100 || !yield(e, err) {
				return
			}
		}
	}
}

func byID(_ outbox.Selection, list entries) entries {
	return func(yield func(outbox.Entry, error) bool) {
		var all []outbox.Entry
		for e := range list {
			all = append(all, e)
		}
		slices.SortFunc(all, func(a, b outbox.Entry) int { return strings.Compare(a.Event.ID, b.Event.ID) })
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}
