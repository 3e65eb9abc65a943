package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/ledger"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// faults makes the calls of a broken store fail.
type faults struct {
	fault Fault
	// err returns the error of a call that meets the fault.
	err func(f Fault, call string, writes bool) error
	// arrives reports whether the backend carries a call out although it fails.
	arrives func(f Fault, call string) bool
	// partial returns the cut response of a call, instead of an error. It may be nil.
	partial func(r store.Record) store.Record
}

func newFaults() faults {
	return faults{
		err: func(f Fault, _ string, writes bool) error {
			if writes && f != Unreachable && f != Closed {
				return fmt.Errorf("storetest: no response: %w", store.ErrUnknown)
			}
			return fmt.Errorf("storetest: no response: %w", store.ErrUnavailable)
		},
		arrives: func(f Fault, _ string) bool { return f == ResponseLost || f == ResponseCut },
	}
}

// injectFault is the hook of Faults for broken stores.
func injectFault(_ *testing.T, st store.Store, f Fault) (heal func()) {
	var x *faults
	switch b := st.(type) {
	case *broken:
		x = &b.faults
	case *brokenTx:
		x = &b.faults
	}
	x.fault = f
	return func() { x.fault = 0 }
}

// meet calls f, unless a fault is in the way.
func (x *faults) meet(call string, writes bool, f func() error) error {
	if x.fault == 0 {
		return f()
	}
	if writes && x.arrives(x.fault, call) {
		_ = f()
	}
	return x.err(x.fault, call, writes)
}

var faultMutants = []mutant{{
	name: "unreachable record is not found",
	defect: failing(func(f Fault, call string) error {
		if f == Unreachable && call == "Find" {
			return store.ErrNotFound
		}
		return nil
	}),
}, {
	name: "unreachable lease is lost",
	defect: failing(func(f Fault, call string) error {
		if f == Unreachable && call == "Complete" {
			return store.ErrLost
		}
		return nil
	}),
}, {
	name: "unreachable write arrives",
	defect: func(b *broken, _ *memstore.Store) {
		b.faults.arrives = func(Fault, string) bool { return true }
	},
}, {
	name: "unreachable read is unknown",
	defect: failing(func(f Fault, call string) error {
		if f == Unreachable && call == "Find" {
			return store.ErrUnknown
		}
		return nil
	}),
}, {
	name: "lost response changed nothing",
	defect: failing(func(f Fault, call string) error {
		if f == ResponseLost && call == "Reserve" {
			return store.ErrUnavailable
		}
		return nil
	}),
}, {
	name: "lost response of a complete is retried and lost",
	defect: failing(func(f Fault, call string) error {
		if f == ResponseLost && call == "Complete" {
			return store.ErrLost
		}
		return nil
	}),
}, {
	name: "lost claim has no owner",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			if b.faults.fault != 0 {
				c.Owner = ""
			}
			return s.Reserve(ctx, c)
		}
	},
}, {
	name: "release whose response is lost can't be repeated",
	defect: func(b *broken, s *memstore.Store) {
		b.release = func(ctx context.Context, l store.Lease) error {
			if b.faults.fault == ResponseLost {
				_ = s.Release(ctx, l)
				_, _ = s.Reserve(ctx, leased(l.ID.Key))
			}
			return s.Release(ctx, l)
		}
	},
}, {
	name: "cut result is whole",
	defect: func(b *broken, _ *memstore.Store) {
		b.faults.partial = func(r store.Record) store.Record {
			r.Result = r.Result[:len(r.Result)/2]
			return r
		}
	},
}, {
	name: "cut record is absent",
	defect: failing(func(f Fault, call string) error {
		if f == ResponseCut && call == "Find" {
			return store.ErrNotFound
		}
		return nil
	}),
}, {
	name:   "cut list is whole",
	defect: func(b *broken, _ *memstore.Store) { b.cutList = true },
}, {
	name: "closed store is ready",
	defect: func(b *broken, _ *memstore.Store) {
		sound := b.faults.err
		b.faults.err = func(f Fault, call string, writes bool) error {
			if f == Closed && call == "Check" {
				return nil
			}
			return sound(f, call, writes)
		}
	},
}}

// failing makes the calls fail for which f returns an error with that error.
func failing(f func(f Fault, call string) error) func(*broken, *memstore.Store) {
	return func(b *broken, _ *memstore.Store) {
		sound := b.faults.err
		b.faults.err = func(fault Fault, call string, writes bool) error {
			if err := f(fault, call); err != nil {
				return err
			}
			return sound(fault, call, writes)
		}
	}
}

var txFaultMutants = []txMutant{{
	name: "lost commit is unavailable",
	defect: func(b *brokenTx, _ *ledger.Store) {
		b.faults.err = func(Fault, string, bool) error { return store.ErrUnavailable }
	},
}, {
	name: "lost commit keeps the effect alone",
	defect: func(b *brokenTx, s *ledger.Store) {
		altered(func(a *alteredTx, s *ledger.Store, c store.Claim, _ store.Grant) {
			a.commit = func(ctx context.Context, o store.Outcome) error {
				err := a.sound.Commit(ctx, o)
				if b.faults.fault == ResponseLost {
					forget(ctx, s, c.ID)
				}
				return err
			}
		})(b, s)
	},
}, {
	name: "unreachable commit arrives",
	defect: func(b *brokenTx, _ *ledger.Store) {
		b.faults.arrives = func(Fault, string) bool { return true }
	},
}, {
	name: "unreachable commit is lost",
	defect: func(b *brokenTx, _ *ledger.Store) {
		sound := b.faults.err
		b.faults.err = func(f Fault, call string, writes bool) error {
			if f == Unreachable && call == "Commit" {
				return store.ErrLost
			}
			return sound(f, call, writes)
		}
	},
}, {
	name: "closed store is not found",
	defect: func(b *brokenTx, _ *ledger.Store) {
		sound := b.faults.err
		b.faults.err = func(f Fault, call string, writes bool) error {
			if f == Closed {
				return store.ErrNotFound
			}
			return sound(f, call, writes)
		}
	},
}}

func TestRightWaysToMeetAFaultPass(t *testing.T) {
	for name, defect := range map[string]func(b *broken, s *memstore.Store){
		"a write that was not sent is unknown": failing(func(f Fault, call string) error {
			if f == Unreachable && call != "Find" && call != "Check" && call != "Pending" {
				return store.ErrUnknown
			}
			return nil
		}),
		"a write whose response is lost is not made": func(b *broken, _ *memstore.Store) {
			b.faults.arrives = func(Fault, string) bool { return false }
		},
		"a write is repeated until its response comes": func(b *broken, _ *memstore.Store) {
			b.retries = true
		},
	} {
		t.Run(name, func(t *testing.T) { require.Empty(t, mutant{defect: defect}.failing(t)) })
	}
}
