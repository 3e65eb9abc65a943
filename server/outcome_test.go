package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSettlementOf(t *testing.T) {
	for _, c := range []struct {
		rule     string
		statuses []int
		override override
		effect   bool
		all      bool
		want     ending
	}{
		{"successes and redirects are complete", []int{200, 201, 202, 204, 299, 301, 303, 304}, overrideNone, false, false, settleComplete},
		{"terminal errors are failed", []int{400, 401, 403, 404, 409, 410, 412, 413, 422, 428, 451, 499}, overrideNone, false, false, settleFailed},
		{"errors that ask for a retry are released", []int{408, 425, 429, 500, 501, 502, 503, 504, 599}, overrideNone, false, false, settleRelease},
		{"a status beyond 599 is a server error", []int{600, 999}, overrideNone, false, false, settleRelease},
		{"a switch of protocols is no outcome", []int{101}, overrideNone, false, false, settleRelease},
		{"with StoreServerErrors those are failed", []int{500, 502, 503, 504}, overrideNone, false, true, settleFailed},
		{"and what asks for a retry below 500 is still released", []int{408, 425, 429}, overrideNone, false, true, settleRelease},
		{"Store completes a success", []int{200, 303}, overrideStore, true, false, settleComplete},
		{"Store keeps any error", []int{400, 408, 425, 429, 500, 503}, overrideStore, true, false, settleFailed},
		{"Release releases anything", []int{200, 303, 400, 500}, overrideRelease, false, true, settleRelease},
		{"Release does nothing after Store", []int{200}, overrideRelease, true, false, settleComplete},
		{"Release does nothing after Store, for errors too", []int{500}, overrideRelease, true, false, settleFailed},
		{"Fail fails anything", []int{200, 303, 400, 429, 500}, overrideFail, false, false, settleFailed},
		{"Fail wins over an earlier Store", []int{200}, overrideFail, true, false, settleFailed},
	} {
		t.Run(c.rule, func(t *testing.T) {
			for _, status := range c.statuses {
				require.Equal(t, c.want, endingOf(status, c.override, c.effect, c.all), "status %d", status)
			}
		})
	}
}

func TestOutsideOfTheMiddleware(t *testing.T) {
	ctx := t.Context()
	Store(ctx)
	Release(ctx)
	Fail(ctx)
	require.Empty(t, Key(ctx))
	require.False(t, TakenOver(ctx))
	require.NoError(t, Checkpoint(ctx, []byte("x")))
}
