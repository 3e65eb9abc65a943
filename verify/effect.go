package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// An effect is the knowledge that a call's result gives of its effect on the store.
type effect uint8

const (
	certain   effect = iota // the model must give the same result
	uncertain               // it may have been done, or be done yet
	none                    // nothing was changed, and the result shows no fact
)

// effectOf reads the error of an admitted result. A method has changed nothing if its error is not nil and is none
// of ErrLost, ErrNotFound and ErrUnknown.
func effectOf(in input, err error) effect {
	switch {
	case errors.Is(err, store.ErrUnknown):
		return uncertain
	case err == nil, errors.Is(err, store.ErrLost), errors.Is(err, store.ErrNotFound):
		return certain
	}
	return none
}

// A licence lists the faults that a call may meet.
type licence struct {
	faults bool  // the engine may be out of reach, or its responses get lost
	ended  bool  // the context had ended before the call
	ending error // the context's error when the call returned
}

// admit returns an error if the contract does not allow the kind of error that the call returned, and nil if it
// does. It does not judge the state of the record.
func (l licence) admit(in input, out output) error {
	err := out.err
	var kinds []error
	for _, kind := range []error{
		store.ErrLost, store.ErrNotFound, store.ErrUnavailable, store.ErrUnknown, store.ErrInvalid,
	} {
		if errors.Is(err, kind) {
			kinds = append(kinds, kind)
		}
	}
	is := func(kind error) bool { return errors.Is(err, kind) }
	switch {
	case in.call == once && len(kinds) == 0 && refuses(err):
		return nil
	case in.call == once && is(store.ErrUnknown) && l.faults:
		return nil // reading the outcome back may have failed too
	case len(kinds) > 1:
		return fmt.Errorf("%v: the error is of %d kinds: %w", in.call, len(kinds), err)
	case len(kinds) == 0 && err != nil:
		return l.admitOther(in, err)
	case l.ended && err == nil:
		return fmt.Errorf("%v: the context had ended, and there is no error", in.call)
	case l.ended && !is(store.ErrInvalid):
		return fmt.Errorf("%v: the context had ended, and the error is another: %w", in.call, err)
	case err == nil:
		if in.validity() == invalid {
			return fmt.Errorf("%v: invalid, and no error", in.call)
		}
		return nil
	}
	allowed := false
	switch {
	case is(store.ErrInvalid):
		allowed = in.validity() != valid
	case is(store.ErrLost):
		allowed = in.call.writes() && in.call != reserve && in.call != purge && in.call != once &&
			in.validity() != invalid
	case is(store.ErrNotFound):
		allowed = in.call == find && in.validity() != invalid
	case is(store.ErrUnknown):
		allowed = in.call.writes() && in.validity() == valid && (l.faults || l.ending != nil)
	case is(store.ErrUnavailable):
		allowed = l.faults
	}
	if !allowed {
		return fmt.Errorf("%v: the contract has no such error here: %w", in.call, err)
	}
	return nil
}

// refuses holds for the errors that Once alone has: its function's own, and those that say why it was not run.
func refuses(err error) bool {
	return errors.Is(err, errFails) || errors.Is(err, taxonomy.InFlight) || errors.Is(err, taxonomy.PayloadMismatch)
}

// admitOther judges an error that is none of the contract's: only the context's is allowed.
func (l licence) admitOther(in input, err error) error {
	if l.ending != nil && errors.Is(err, l.ending) &&
		(errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return fmt.Errorf("%v: an error of no kind: %w", in.call, err)
}
