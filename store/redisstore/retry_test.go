package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

func TestEndedByOther(t *testing.T) {
	dialing := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, c := range []struct {
		rule  string
		err   error
		ended error
		left  time.Duration
		plain bool
		want  bool
	}{
		{rule: "a cancellation while the call's own context lives", err: context.Canceled, want: true},
		{rule: "also one that came while dialing", err: dialing(context.Canceled), want: true},
		{rule: "also one that is wrapped", err: fmt.Errorf("reading: %w", context.Canceled), want: true},
		{rule: "not one of the call's own", err: context.Canceled, ended: context.Canceled},
		{
			rule: "not one while the call's own deadline has passed", err: dialing(context.Canceled),
			ended: context.DeadlineExceeded,
		},
		{rule: "a dial that ran out of time", err: dialing(context.DeadlineExceeded), want: true},
		{
			rule: "a deadline, where the call has none and the client is Open's", err: context.DeadlineExceeded,
			left: math.MaxInt64, plain: true, want: true,
		},
		{rule: "not one that may be the call's own", err: context.DeadlineExceeded, left: nearEnd, plain: true},
		{
			rule: "not one that a client of the user's own making may have sent a command under",
			err:  context.DeadlineExceeded, left: math.MaxInt64,
		},
		{rule: "not a connection that broke", err: io.EOF, left: math.MaxInt64, plain: true},
		{rule: "not a dial that was refused", err: dialing(io.EOF), left: math.MaxInt64, plain: true},
		{rule: "not a client that was closed", err: rueidis.ErrClosing, left: math.MaxInt64, plain: true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			require.Equal(t, c.want, endedByOther(c.err, c.ended, c.left, c.plain))
		})
	}
}

func TestAnUnknownWriteNamesTheEndOfItsCall(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for text, err := range map[string]error{
		"redisstore: store: outcome of the write unknown: context canceled: EOF": writeFailed(ended, io.EOF),
		"redisstore: store: outcome of the write unknown: context canceled":      writeFailed(ended, context.Canceled),
	} {
		require.ErrorIs(t, err, store.ErrUnknown)
		require.ErrorIs(t, err, context.Canceled)
		require.EqualError(t, err, text)
	}
}

func TestAWaitThatFailsIsUnknown(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	s, noNumber := Store{config: config{replicas: 1}}, rueidis.RedisResult{}
	for _, ctx := range []context.Context{t.Context(), ended} {
		err := s.acknowledged(ctx, noNumber)
		require.ErrorIs(t, err, store.ErrUnknown)
		require.Equal(t, ctx.Err() != nil, errors.Is(err, context.Canceled))
		require.NotContains(t, err.Error(), "%!", "the text is made of errors")
	}
}

func TestAWriteThatWasNotSentIsNotUnknown(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	dial, read := &net.OpError{Op: "dial", Err: io.EOF}, &net.OpError{Op: "read", Err: io.EOF}
	for _, err := range []error{dial, rueidis.ErrNoAddr, rueidis.ErrNoSlot} {
		require.Equal(t, context.Canceled, writeFailed(ended, err))
		require.ErrorIs(t, writeFailed(t.Context(), err), store.ErrUnavailable)
		require.NotErrorIs(t, writeFailed(t.Context(), err), store.ErrUnknown)
	}
	another := writeFailed(t.Context(), context.Canceled)
	require.ErrorIs(t, another, store.ErrUnavailable, "another caller's end")
	require.NotErrorIs(t, another, store.ErrUnknown)
	for _, err := range []error{read, io.EOF, rueidis.ErrClosing} {
		require.EqualError(t, writeFailed(t.Context(), err),
			"redisstore: store: outcome of the write unknown: "+err.Error())
		require.ErrorIs(t, writeFailed(t.Context(), err), store.ErrUnknown)
	}
}

func TestACallThatOthersDisturbIsRepeatedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := &Store{life: t.Context()}, attempts{}
		for range maxDisturbed - 1 {
			require.True(t, a.another(t.Context(), s, context.Canceled))
		}
		require.False(t, a.another(t.Context(), s, context.Canceled), "it was disturbed too often")

		a = attempts{}
		require.True(t, a.another(t.Context(), s, context.Canceled))
		time.Sleep(disturbedFor - 1)
		require.True(t, a.another(t.Context(), s, context.Canceled))
		time.Sleep(time.Nanosecond)
		require.False(t, a.another(t.Context(), s, context.Canceled), "it was disturbed for too long")
	})
}

func TestADeadlineThatIsNearMayBeTheCallsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{owned: func() {}}
		near, endNear := context.WithTimeout(t.Context(), nearEnd)
		defer endNear()
		far, endFar := context.WithTimeout(t.Context(), nearEnd+1)
		defer endFar()
		require.False(t, s.disturbed(near, context.DeadlineExceeded))
		require.True(t, s.disturbed(far, context.DeadlineExceeded))
		require.True(t, s.disturbed(t.Context(), context.DeadlineExceeded))
		require.False(t, (&Store{}).disturbed(far, context.DeadlineExceeded), "the client is the caller's own")
	})
}

func TestPauseEndsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, end := context.WithCancel(t.Context())
		end()
		open, closed := &Store{life: t.Context()}, &Store{life: ended}
		for rule, c := range map[string]struct {
			ctx    context.Context
			s      *Store
			paused time.Duration
			want   bool
		}{
			"a call goes on after a pause":      {t.Context(), open, 0, true},
			"not after the longest one":         {t.Context(), open, lastPause, false},
			"not after the end of its context":  {ended, open, 0, false},
			"not after the store was closed":    {t.Context(), closed, 0, false},
			"the longest pause is still waited": {t.Context(), open, lastPause / 2, true},
		} {
			require.Equal(t, c.want, (&attempts{pause: c.paused}).rest(c.ctx, c.s), rule)
		}
	})
}
