package verify

import (
	"fmt"
	"hash/maphash"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redo-go/redo/store"
)

// patience bounds the search for an order of one history. The search takes milliseconds. Lost responses make it
// longer, since each such call may have taken effect at any time after its beginning.
const patience = time.Minute

// A violation is a history that the contract does not have.
type violation struct {
	seed   uint64
	reason error
	draw   func(path string) error // writes the history as an HTML page; nil if a single result is wrong in every order
}

// check returns nil if a correct store could have returned these results.
func (h history) check() *violation {
	for _, e := range h.events {
		if err := e.licence.admit(e.in, e.out); err != nil {
			return &violation{seed: h.plan.seed, reason: fmt.Errorf("%v: %w", e.in, err)}
		}
	}
	if err := h.purges(); err != nil {
		return &violation{seed: h.plan.seed, reason: err}
	}
	if err := h.settleEffects(); err != nil {
		return &violation{seed: h.plan.seed, reason: err}
	}
	m := linearizable(model{h.plan.scale})
	result, info := porcupine.CheckOperationsVerbose(m, h.operations(), patience)
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return &violation{
			seed: h.plan.seed, reason: fmt.Errorf("undecided after %v: make the history shorter", patience),
		}
	}
	return &violation{
		seed:   h.plan.seed,
		reason: fmt.Errorf("the history is not linearizable"),
		draw:   func(path string) error { return porcupine.VisualizePath(m, info, path) },
	}
}

// purges compares the number of purged records with the number that can have expired. The records show that
// nothing else was purged.
func (h history) purges() error {
	purged, made := 0, 0
	for _, e := range h.events {
		purged += e.out.purged
		if e.in.call == reserve && (e.out.grant.Verdict == store.Acquired || e.out.err != nil) {
			made++
		}
	}
	if !h.plan.scale.exact() {
		made = 0 // nothing expires
	}
	if purged > made {
		return fmt.Errorf("%d records were purged, of at most %d that can have expired", purged, made)
	}
	return nil
}

// operations leaves out calls that had no effect and returned no fact. A call whose effect is uncertain has no
// end.
func (h history) operations() []porcupine.Operation {
	var ops []porcupine.Operation
	for _, e := range h.events {
		op := porcupine.Operation{ClientId: e.worker, Input: e.in, Output: e.out, Call: e.call, Return: e.answer}
		switch effectOf(e.in, e.out.err) {
		case none:
			continue
		case certain:
			if h.behindATransaction(e) {
				continue
			}
			if e.open {
				op.Return = math.MaxInt64
			}
		case uncertain:
			if e.in.call != reserve && e.in.call != once && (e.in.fence == 0 || e.in.fence == math.MaxUint64) {
				continue // no lease has that fence
			}
			op.Return = math.MaxInt64
		}
		if e.in.call != purge {
			ops = append(ops, op)
		}
	}
	return ops
}

func linearizable(m model) porcupine.Model {
	seed := maphash.MakeSeed()
	return porcupine.Model{
		Partition: byID,
		Init:      func() any { return state{} },
		Step: func(s, in, out any) (bool, any) {
			next, err := m.step(s.(state), in.(input), out.(output))
			return err == nil, next
		},
		Hash: func(s any) uint64 { return maphash.Comparable(seed, s.(state)) },
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%v → %s", in, out.(output).describe(in.(input).call))
		},
		DescribeState: func(s any) string { return s.(state).String() },
	}
}

// byID splits a history, since a record knows nothing of another's.
func byID(ops []porcupine.Operation) [][]porcupine.Operation {
	at := map[store.ID]int{}
	var parts [][]porcupine.Operation
	for _, op := range ops {
		id := op.Input.(input).id
		i, ok := at[id]
		if !ok {
			i = len(parts)
			at[id] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	return parts
}
