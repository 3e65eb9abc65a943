package taxonomy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheServerCannotSpeakForTheCaller(t *testing.T) {
	v := Classify(Answer{Status: 504, Header: http.Header{"Error-Code": {string(CallerDeadline)}}})
	require.Equal(t, Verdict{Code: Timeout, Class: ClassTransient}, v)
}

func TestSharedWordsAreNoCodesOfOurs(t *testing.T) {
	for word, code := range sharedCodes {
		require.Contains(t, Codes(), code, word)
		require.False(t, isCode(Code(word)), "%s would be read as a code of ours", word)
	}
}

func TestAMemberWhoseNameIsEscapedIsRead(t *testing.T) {
	v := Classify(Answer{Status: 400, Body: []byte(`{"\u0063ode":"RATE_LIMIT.exceeded"}`)})
	require.Equal(t, RateLimited, v.Code)
	require.True(t, v.Said)
}

func TestAProvidersOwnWords(t *testing.T) {
	codes := map[string]Code{
		"IDEMPOTENCY_CONFLICT": "",
		"already_done":         Duplicate,
		"17":                   PayloadMismatch,
		"gave_up":              CallerCanceled,
		"nonsense":             "no code",
		"wait":                 InFlight + ".queued",
	}
	refused := Verdict{Code: Unprocessable, Effect: NotApplied}
	for name, c := range map[string]struct {
		body string
		want Verdict
	}{
		"a new word": {`{"code":"already_done"}`,
			Verdict{Code: Duplicate, Class: ClassSuccess, Effect: Applied, Said: true}},
		"a new number": {`{"code":17}`, Verdict{Code: PayloadMismatch, Effect: NotApplied, Said: true}},
		"a detail of a known code": {`{"code":"wait"}`,
			Verdict{Code: InFlight + ".queued", Class: ClassTransient, Said: true}},
		"a hidden word":                {`{"code":"IDEMPOTENCY_CONFLICT"}`, refused},
		"the caller's code is none":    {`{"code":"gave_up"}`, refused},
		"an invalid code is none":      {`{"code":"nonsense"}`, refused},
		"the shared table still holds": {`{"code":"IDEMPOTENCY_EXPIRED"}`, Verdict{Code: KeyExpired, Said: true}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, Classify(Answer{Status: 422, Body: []byte(c.body), Codes: codes}))
		})
	}
	require.Equal(t, PayloadMismatch, Classify(Answer{
		Status: 422, Header: http.Header{"Error-Code": {"17"}}, Codes: codes,
	}).Code, "a word in a header")
}

// TestUnsettledWordsWithdrawNotApplied holds for words that no table has. The status still decides code and class.
func TestUnsettledWordsWithdrawNotApplied(t *testing.T) {
	for _, word := range []string{
		"TransferInProgress", "transfer_in_progress", "TRANSFER-IN-FLIGHT", "inflight", "order.in.process",
		"processing",
		"outcome_uncertain", "CommitStateUnknownException", "payment.pending", "OrderAlreadyPaid", "duplicate_order",
		"https://api.test/errors/in-progress", "VALIDATION.already_paid",
	} {
		requireUnprocessable(t, word, EffectUnknown)
	}
	for _, word := range []string{
		"login_process_failed", "processing_error", "unknown_parameter", "impending", "in_range", "amount_too_small",
		"https://in-progress.test/errors/amount", "VALIDATION.amount", "amount:pending", ":pending", "",
	} {
		requireUnprocessable(t, word, NotApplied)
	}
	// A longer text is no word.
	longest := strings.Repeat("x", maxWord-len("-in-progress")) + "-in-progress"
	requireUnprocessable(t, longest, EffectUnknown)
	requireUnprocessable(t, "x"+longest, NotApplied)
	longest = strings.Repeat("x", maxWord)
	r := reader{codes: map[string]Code{longest: InFlight, "x" + longest: InFlight}}
	require.Equal(t, InFlight, r.lookup(longest))
	require.Empty(t, r.lookup("x"+longest))
}

func TestTheFirstOfTwoWordsOfEqualRankWins(t *testing.T) {
	var r reader
	r.read("VALIDATION.first")
	r.read("VALIDATION.second")
	require.Equal(t, Code("VALIDATION.first"), r.code)
	r.read(string(NotFound))
	require.Equal(t, NotFound, r.code, "a known code ranks higher")
}

// requireUnprocessable sends a word in each place where it is read, under a 422.
func requireUnprocessable(t *testing.T, word string, want Effect) {
	t.Helper()
	for _, member := range []string{"code", "error", "type", "status", "state"} {
		v := Classify(Answer{Status: 422, Body: []byte(`{"` + member + `":"` + word + `"}`)})
		require.Equal(t, want, v.Effect, "%s: %s", member, word)
		require.Equal(t, ClassTerminal, v.Class)
	}
	v := Classify(Answer{Status: 422, Header: http.Header{"Error-Code": {word}}})
	require.Equal(t, want, v.Effect, word)
}

func TestHeadersThatExplainAStatus(t *testing.T) {
	limited := Verdict{Code: RateLimited, Class: ClassTransient, Effect: NotApplied}
	forbidden := Verdict{Code: Forbidden, Effect: NotApplied}
	unknownCaller := Verdict{Code: Unauthenticated, Effect: NotApplied}
	for name, c := range map[string]struct {
		status int
		header http.Header
		want   Verdict
	}{
		"no calls remain": {403, http.Header{"X-Ratelimit-Remaining": {"0"}}, limited},
		"a wait":          {403, http.Header{"Retry-After": {"60"}}, limited},
		"calls remain":    {403, http.Header{"X-Ratelimit-Remaining": {"10"}}, forbidden},
		"neither":         {403, nil, forbidden},
		"a page of squid, which may withhold a response": {403, http.Header{"X-Squid-Error": {"ERR_ACCESS_DENIED 0"}},
			Verdict{Code: Forbidden}},
		"squid asks for credentials first": {407, http.Header{"X-Squid-Error": {"ERR_CACHE_ACCESS_DENIED 0"}},
			Verdict{Code: ProxyAuth, Effect: NotApplied}},
		"another status":     {401, http.Header{"Retry-After": {"60"}}, unknownCaller},
		"too old to be kept": {412, http.Header{"Repeatability-Result": {"Rejected"}}, Verdict{Code: KeyExpired}},
		"a precondition of an accepted request": {412, http.Header{"Repeatability-Result": {"accepted"}},
			Verdict{Code: Precondition, Effect: NotApplied}},
		"a bad repeatability header": {400, http.Header{"Repeatability-Result": {"rejected"}},
			Verdict{Code: BadRequest, Effect: NotApplied}},
		"a reported code wins": {403, http.Header{"Retry-After": {"60"}, "Error-Code": {string(Forbidden)}},
			Verdict{Code: Forbidden, Effect: NotApplied, Said: true}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, Classify(Answer{Status: c.status, Header: c.header}))
		})
	}
	v := Classify(Answer{
		Status: 403, Header: http.Header{"Retry-After": {"60"}}, StatusCodes: map[int]Code{403: Forbidden},
	})
	require.Equal(t, limited, v, "the headers outweigh a profile's meaning of the status")
}

func TestNoWordPanics(t *testing.T) {
	for _, word := range []string{
		":", "://", "#", "/", "a:", ":a", "#:", "::", "a//", strings.Repeat("#", 600), "\xff:\xff",
	} {
		require.NotPanics(t, func() {
			Classify(Answer{Status: 409, Header: http.Header{"Error-Code": {word}, "X-Amzn-Errortype": {word}}})
		}, word)
	}
}

// A refusal has one of the members that are read, and rarely two.
func TestAnAbsentMemberCostsNoAllocation(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, ok := objectOf(nil); ok || firstOf(nil) != nil || wordOf(nil) != "" {
			t.Error("an absent member has a value")
		}
	}))
}

func TestAWordIsSeparatedInOneAllocation(t *testing.T) {
	const word = "https://api.test/errors#TransferIsStillInProgress"
	require.Equal(t, " https api test errors transfer is still in progress ", separate(word))
	require.InDelta(t, 1, testing.AllocsPerRun(100, func() { separate(word) }), 0)
}
