package taxonomy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACodeMatchesItselfAndWhatIsAboveIt(t *testing.T) {
	err := fmt.Errorf("call: %w", InFlight)
	require.ErrorIs(t, err, InFlight)
	require.ErrorIs(t, err, Code("CONFLICT.idempotency"))
	require.ErrorIs(t, err, Conflict)
	require.NotErrorIs(t, err, PayloadMismatch)
	require.NotErrorIs(t, err, Validation)
	require.NotErrorIs(t, err, Code("CONFL"), "a prefix that ends inside a word is no family")
	require.NotErrorIs(t, Conflict, InFlight, "a family is not one of its codes")
	require.NotErrorIs(t, err, errors.New(string(InFlight)), "only a Code matches")
	require.False(t, InFlight.In(""), "nothing is in the empty code")
	require.False(t, Code("").In(Conflict))
	require.False(t, Code("").In(""))
}

func TestNamesOfCodes(t *testing.T) {
	for _, c := range []Code{"VALIDATION.azAZ09", "VALIDATION.a-b_c.d", Code("VALIDATION." + strings.Repeat("n", maxCode-11))} {
		require.True(t, isCode(c), "%q", c)
	}
	for _, c := range []Code{
		"", "VALIDATION", "VALIDATION.", "VALIDATION.a..b", "VALIDATION.a.", "OTHER.a", "VALIDATION.a b", "VALIDATION.é",
		"VALIDATION.[", "VALIDATION.@", "VALIDATION.`", "VALIDATION.{", "VALIDATION./", "VALIDATION.:",
		Code("VALIDATION." + strings.Repeat("n", maxCode-10)),
	} {
		require.False(t, isCode(c), "%q", c)
	}
}

func TestFamily(t *testing.T) {
	require.Equal(t, Conflict, InFlight.Family())
	require.Equal(t, Auth, Auth.Family())
	require.Equal(t, Code(""), Code("").Family())
}

func TestCodes(t *testing.T) {
	all := Codes()
	require.True(t, slices.IsSorted(all))
	require.Len(t, slices.Compact(slices.Clone(all)), len(all))
	require.Contains(t, all, TooManyRedirects)
	require.NotContains(t, all, Validation, "families are no codes")

	all[0] = "changed"
	require.NotEqual(t, Code("changed"), Codes()[0], "the slice is the caller's own")
}

func TestHintAndTransientOfWhatIsNotInTheTable(t *testing.T) {
	for _, c := range []struct {
		name      string
		code      Code
		like      Code
		transient bool
	}{
		{"a family speaks for itself", RateLimit, "RATE_LIMIT", true},
		{"an unknown code is like its family", "DEPENDENCY.bank", Dependency, true},
		{"an unknown terminal code is like its family", "AUTH.scope.missing", Auth, false},
		{"a detail is like its code", "CONFLICT.idempotency.in_flight.queued", InFlight, true},
		{"a code beside a known one is like the family", "CONFLICT.idempotency.other", Conflict, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NotEmpty(t, c.code.Hint())
			require.Equal(t, c.like.Hint(), c.code.Hint())
			require.Equal(t, c.transient, c.code.Transient())
		})
	}
	for _, c := range []Code{"", "OTHER.thing", "VALIDATIONS.x", "."} {
		require.Empty(t, c.Hint(), c)
		require.False(t, c.Transient(), c)
	}
}

func TestTransientCodes(t *testing.T) {
	var got []Code
	for _, c := range Codes() {
		if c.Transient() {
			got = append(got, c)
		}
	}
	require.ElementsMatch(t, []Code{
		InFlight, Timeout, Unavailable, RateLimited,
		Internal, Reset, EOF, Truncated, GoAway, RefusedStream, Connection, TooEarly,
	}, got)
}

func TestNames(t *testing.T) {
	require.Equal(t, []string{"unknown", "not applied", "applied", "unknown"},
		[]string{EffectUnknown.String(), NotApplied.String(), Applied.String(), Effect(9).String()})
	require.Equal(t, []string{"terminal", "transient", "success", "terminal"},
		[]string{ClassTerminal.String(), ClassTransient.String(), ClassSuccess.String(), Class(9).String()})
}

func TestAVerdictCarriesItsCodesHint(t *testing.T) {
	require.Equal(t, RateLimited.Hint(), Classify(Answer{Status: 429}).Hint())
	require.NotEmpty(t, Classify(Answer{Status: 429}).Hint())
	require.Empty(t, Classify(Answer{Status: 200}).Hint())
}
