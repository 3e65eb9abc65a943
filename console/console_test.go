package console_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/console"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func TestNewNamesEveryWrongOption(t *testing.T) {
	_, err := console.New(console.Operations(nil), console.Events("", memoutbox.New()), console.Letters(nil),
		console.Records(nil), console.Authenticate(nil), console.Author(""), console.Audit(nil))
	for _, name := range []string{"Operations", "Events", "Letters", "Records", "Authenticate", "Author", "Audit"} {
		require.ErrorContains(t, err, "console: option "+name+": ")
	}
	_, err = console.New(console.Letters((*inbox.Inbox)(nil)), console.Records((*memstore.Store)(nil)),
		console.Events("a", (*memoutbox.Queue)(nil)))
	require.ErrorContains(t, err, `console: option Events: the queue "a" is nil`)
	require.ErrorContains(t, err, "console: option Letters: the inbox is nil")
	require.ErrorContains(t, err, "console: option Records: the store is nil")
	_, err = console.New(console.Events("a", memoutbox.New()), console.Events("a", memoutbox.New()))
	require.ErrorContains(t, err, `the name "a" is given twice`)
	_, err = console.New()
	require.ErrorContains(t, err, "nothing to show")
	_, err = console.New(nil)
	require.ErrorContains(t, err, "an option is nil")
	_, err = console.New(console.Events("a", memoutbox.New()), console.Events("b", memoutbox.New()))
	require.NoError(t, err)
}

func TestOverviewShowsCountsAndCauses(t *testing.T) {
	page := newRig(t).get("./")
	for _, part := range []string{
		`<a href="operations">Pending</a></dt><dd>3</dd>`,
		`<a href="operations?show=unknown">Unknown</a></dt><dd>1</dd>`,
		`state=dead">Dead</a></dt><dd>3</dd>`, `state=waiting">Waiting</a></dt><dd>1</dd>`,
		`<dt>Disabled</dt><dd>1</dd>`,
		`<a href="letters">Dead</a></dt><dd>1</dd>`, `<a href="letters?state=waiting">Waiting</a></dt><dd>1</dd>`,
		"https://closed.example/hooks?***", "<code>VALIDATION.gone</code>",
		"<code>DEPENDENCY.unavailable</code></td><td role=\"cell\" data-label=\"Stopped\">3<",
		"<code>CONFLICT.idempotency.outcome_unknown</code></td><td role=\"cell\" data-label=\"Stopped\">1<",
	} {
		require.Contains(t, page, part)
	}
}

func TestListsShowTheirRows(t *testing.T) {
	r := newRig(t)
	all := r.get("operations")
	for _, name := range []string{"refund:pending", "refund:unknown", "refund:down"} {
		require.Contains(t, all, name)
	}
	unknown := r.get("operations?show=unknown")
	require.Contains(t, unknown, "refund:unknown")
	require.NotContains(t, unknown, "refund:pending")

	require.Contains(t, r.get("events?queue=outbox"), "closed-1")
	dead := r.get("events?queue=outbox&state=dead")
	require.Contains(t, dead, "order-1")
	require.NotContains(t, dead, "closed-1")
	typed := r.get("events?queue=outbox&type=refund.created")
	require.Contains(t, typed, "refund-1")
	require.NotContains(t, typed, "order-1")

	require.Contains(t, r.get("letters"), "no such account")
	require.Contains(t, r.get("letters?state=waiting"), "the ledger is down")
}

func TestOperationAndEventShowTheirTimeline(t *testing.T) {
	r := newRig(t)
	page := r.get("operation?name=refund:pending")
	require.Contains(t, page, "POST https://api.example/pending?***")
	require.Contains(t, page, "An attempt may have reached the server")
	require.Contains(t, r.get("operation?name=refund:unknown"), "<code>CONFLICT.idempotency.outcome_unknown</code>")
	page = r.get(r.link("events?queue=outbox", "order-1"))
	for _, part := range []string{
		"Enqueued", "with status 503 after 1.5s", "the server is busy", "Given up", "(hidden)",
	} {
		require.Contains(t, page, part)
	}
}

func TestOneIdIsFoundEverywhere(t *testing.T) {
	r := newRig(t)
	op, err := r.client.Find(t.Context(), "refund:pending")
	require.NoError(t, err)
	require.Contains(t, r.get("find?q="+op.Key), "operation?name=refund%3Apending")
	require.Contains(t, r.get("find?q=refund:pending"), "<h2>Server records</h2>", "the rig's client shares its store")
	require.Contains(t, r.get("find?q=refund-1"), "<h2>Events</h2>")
	require.Contains(t, r.get("find?q=letter-dead"), "<h2>Letters</h2>")
	require.Contains(t, r.get("find?q=nowhere"), "Nothing has the name")
}

func TestBodiesAreShownOnlyOnRequest(t *testing.T) {
	r := newRig(t, console.ShowBodies())
	page := r.do(http.MethodGet, r.hiddenLink("events?queue=outbox", "order-1"), nil).Body.String()
	require.Contains(t, page, "<pre>"+secret+"</pre>")
	require.NotContains(t, page, "token="+secret)
	require.Contains(t, r.do(http.MethodGet, "letters", nil).Body.String(), "<pre>"+secret+"</pre>")
}

// hiddenLink is link for a page that may show bodies.
func (r *rig) hiddenLink(page, contains string) string {
	for _, m := range address.FindAllStringSubmatch(text(r.do(http.MethodGet, page, nil).Body.String()), -1) {
		if strings.Contains(m[1], contains) {
			return m[1]
		}
	}
	return ""
}

func TestWhatDoesNotExistIsNotFound(t *testing.T) {
	r := newRig(t)
	for _, page := range []string{
		"operation?name=none", "forget?name=none", "events?queue=none", "event?queue=outbox&id=none",
		"event?queue=outbox", "event?queue=outbox&id=order-1&to=00", "selection?queue=none", "nothing",
	} {
		require.Equal(t, http.StatusNotFound, r.do(http.MethodGet, page, nil).Code, page)
	}
	require.Equal(t, http.StatusMethodNotAllowed, r.do(http.MethodGet, "settle", nil).Code)
}

// An operator follows a link of the overview, chooses the effect and submits the form: three clicks.
func TestUnknownOperationIsFoundAndSettledInFourClicks(t *testing.T) {
	r := newRig(t)
	page := r.link("./", "operation?name=refund%3Aunknown")
	fields := r.forms(page, "settle")
	require.Len(t, fields, 1)
	fields[0].Set("effect", "applied")
	fields[0].Set("evidence", "GET /refunds returned rf_1")
	w := r.do(http.MethodPost, "settle", fields[0])
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body.String())
	after := r.get(w.Header().Get("Location"))
	require.Contains(t, after, "Your finding is recorded")
	require.Contains(t, after, "<strong>Found applied</strong> by ana: GET /refunds returned rf_1")
	require.Equal(t, store.StateComplete, r.state("refund:unknown"))
	a := r.act()
	require.Equal(t, console.Act{
		Author: "ana", Action: "settle", Operation: "refund:unknown", Key: fields[0].Get("key"), Effect: redo.Applied,
		Evidence: "GET /refunds returned rf_1",
	}, a)
}

func TestSettleWithoutAFindingIsRefused(t *testing.T) {
	for name, change := range map[string]url.Values{
		"no effect":   {"evidence": {"x"}},
		"no evidence": {"effect": {"applied"}, "evidence": {" "}},
		"no such":     {"effect": {"unknown"}, "evidence": {"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			fields := r.forms("operation?name=refund:unknown", "settle")[0]
			for k, v := range change {
				fields[k] = v
			}
			require.Equal(t, http.StatusUnprocessableEntity, r.do(http.MethodPost, "settle", fields).Code)
			require.Equal(t, store.StatePending, r.state("refund:unknown"))
		})
	}
}

func TestSettleThatContradictsTheRecordIsRefusedAndAudited(t *testing.T) {
	r := newRig(t)
	fields := r.forms("operation?name=refund:unknown", "settle")[0]
	applied := redo.Finding{Effect: redo.Applied, Evidence: "x", By: "y"}
	require.NoError(t, r.client.Settle(t.Context(), "refund:unknown", applied))
	fields.Set("effect", "not applied")
	fields.Set("evidence", "z")
	require.Equal(t, http.StatusConflict, r.do(http.MethodPost, "settle", fields).Code)
	require.ErrorIs(t, r.act().Err, redo.ErrContradiction)
}

func TestResumeSendsThePendingOperationAgain(t *testing.T) {
	r := newRig(t)
	fields := r.forms("operation?name=refund:pending", "resume")[0]
	w := r.do(http.MethodPost, "resume", fields)
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body.String())
	require.Contains(t, r.get(w.Header().Get("Location")), "it succeeded")
	require.Equal(t, store.StateComplete, r.state("refund:pending"))
	require.Equal(t, "resume", r.act().Action)
	require.NoError(t, r.act().Err)
}

func TestResumeThatFailsShowsItsCause(t *testing.T) {
	r := newRig(t)
	w := r.do(http.MethodPost, "resume", r.forms("operation?name=refund:down", "resume")[0])
	require.Equal(t, http.StatusBadGateway, w.Code)
	require.Contains(t, w.Body.String(), "<code>DEPENDENCY.unavailable</code>")
	require.NotContains(t, w.Body.String(), secret)
	require.Error(t, r.act().Err)
	require.Equal(t, store.StatePending, r.state("refund:down"))
	require.Empty(t, r.forms("operation?name=refund:unknown", "resume"), "it is never sent again")
}

func TestResumeThatGetsAFinalFailureAsksForASettlement(t *testing.T) {
	r := newRig(t)
	require.Error(t, r.call("refund:final", "/final"))
	page := r.do(http.MethodPost, "resume", r.forms("operation?name=refund:final", "resume")[0]).Body.String()
	require.Contains(t, page, "<code>TRANSIENT.internal</code>: read the resource back, then settle the operation")
	require.NotContains(t, page, "retry with the same key", "redo does not send it again")
}

func TestForgetAsksFirst(t *testing.T) {
	r := newRig(t)
	page := r.link("operation?name=refund:unknown", "forget?")
	require.Contains(t, r.get(page), "it is then applied twice")
	require.Equal(t, store.StatePending, r.state("refund:unknown"), "the page alone changes nothing")
	w := r.do(http.MethodPost, "forget", r.forms(page, "forget")[0])
	require.Equal(t, http.StatusSeeOther, w.Code)
	_, err := r.client.Find(t.Context(), "refund:unknown")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Equal(t, "forget", r.act().Action)
}

// Between a page and its form, another call may have taken the name for a new operation.
func TestFormOfAnEarlierOperationChangesNothing(t *testing.T) {
	for _, action := range []string{"settle", "resume", "forget"} {
		t.Run(action, func(t *testing.T) {
			r := newRig(t)
			fields := r.forms("forget?name=refund:pending", "forget")[0]
			require.NoError(t, r.client.Forget(t.Context(), "refund:pending"))
			require.NoError(t, r.call("refund:pending", "/other"))
			fields.Set("effect", "applied")
			fields.Set("evidence", "x")
			require.Equal(t, http.StatusConflict, r.do(http.MethodPost, action, fields).Code)
			_, err := r.client.Find(t.Context(), "refund:pending")
			require.NoError(t, err)
			require.Empty(t, r.acts)
		})
	}
}

// Between the question and its confirmation, another person may have resumed or settled the operation. If it is then
// forgotten, it may be applied twice.
func TestForgetOfAnOperationThatHasEndedMeanwhileChangesNothing(t *testing.T) {
	for action, state := range map[string]store.State{"resume": store.StateComplete, "settle": store.StateFailed} {
		t.Run(action, func(t *testing.T) {
			r := newRig(t)
			asked := r.forms("forget?name=refund:pending", "forget")[0]
			other := r.forms("operation?name=refund:pending", action)[0]
			other.Set("effect", "not applied")
			other.Set("evidence", "x")
			require.Equal(t, http.StatusSeeOther, r.do(http.MethodPost, action, other).Code)
			w := r.do(http.MethodPost, "forget", asked)
			require.Equal(t, http.StatusConflict, w.Code)
			require.Contains(t, w.Body.String(), "Nothing was changed: the operation is "+state.String()+" now")
			require.Equal(t, state, r.state("refund:pending"))
			require.Len(t, r.acts, 1)
		})
	}
}

func TestRedriveMakesOneLetterWait(t *testing.T) {
	r := newRig(t)
	fields := r.forms(r.link("events?queue=outbox", "order-1"), "redrive")[0]
	w := r.do(http.MethodPost, "redrive", fields)
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body.String())
	require.Contains(t, r.get(w.Header().Get("Location")), "The letter waits for delivery again")
	require.Equal(t, outbox.Stats{Waiting: 2, Dead: 2}, r.stats())
	require.Equal(t, console.Act{
		Author: "ana", Action: "redrive", Queue: "outbox", Event: "order-1", Redriven: 1,
		Destination: "https://***@shop.example/hooks?***",
	}, r.act())
	require.Equal(t, http.StatusConflict, r.do(http.MethodPost, "redrive", fields).Code, "it is no letter any more")
}

func (r *rig) stats() outbox.Stats {
	st, err := r.queue.Stats(r.Context())
	require.NoError(r, err)
	st.Oldest = 0
	return st
}

func TestSelectionIsPreviewedAndRedrivenAtItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		time.Sleep(time.Second) // the letters are older than the preview
		const page = "selection?queue=outbox&type="
		require.Contains(t, r.get(page), "<strong>3</strong> dead letters")
		require.Contains(t, r.get(page+"order.created"), "<strong>1</strong> dead letters")
		require.Equal(t, 3, r.stats().Dead, "a preview changes nothing")
		fields := r.forms(page, "selection")[0]
		fields.Set("rate", "1")
		start := time.Now()
		w := r.do(http.MethodPost, "selection", fields)
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), "3 redriven")
		require.Equal(t, 2*time.Second, time.Since(start), "the third letter waits for two intervals")
		require.Zero(t, r.stats().Dead)
		require.Equal(t, 3, r.act().Redriven)
	})
}

func TestSelectionForOneDestinationLeavesTheOthers(t *testing.T) {
	r := newRig(t)
	to := r.forms(r.link("events?queue=outbox&type=order.created", "order-1"), "redrive")[0].Get("to")
	time.Sleep(time.Millisecond)
	fields := r.forms("selection?queue=outbox&to="+to, "selection")[0]
	fields.Set("rate", "1000")
	require.Equal(t, http.StatusOK, r.do(http.MethodPost, "selection", fields).Code)
	require.Equal(t, 1, r.stats().Dead, "the letter for the other destination")
	require.Equal(t, "https://***@shop.example/hooks?***", r.act().Destination)
}

// An empty destination of an outbox.Selection means all of them.
func TestSelectionForNoDestinationIsRefused(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.queue.Append(t.Context(), outbox.Event{ID: "nowhere-1"}))
	claimed, err := r.queue.Claim(t.Context(), outbox.Claim{Max: 1, Lease: time.Hour})
	require.NoError(t, err)
	dead := outbox.Outcome{Result: outbox.Dead}
	_, err = r.queue.Settle(t.Context(), outbox.Settlement{Lease: claimed[0].Lease, Outcome: dead})
	require.NoError(t, err)
	page := r.link("events?queue=outbox", "nowhere-1")
	fields := r.forms(page, "redrive")[0]
	selection := url.Values{"queue": {"outbox"}, "to": fields["to"], "rate": {"1000"}}
	time.Sleep(time.Millisecond)
	require.Equal(t, http.StatusUnprocessableEntity, r.do(http.MethodPost, "selection", selection).Code)
	require.Equal(t, 4, r.stats().Dead)
	require.Equal(t, http.StatusSeeOther, r.do(http.MethodPost, "redrive", fields).Code, "one by one they are redriven")
}

// A long redrive ends in time, and the operator continues it.
func TestLongSelectionIsContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 50 {
			require.NoError(t,
				r.queue.Append(t.Context(), outbox.Event{ID: fmt.Sprint("many-", i), Destination: audit}))
		}
		claimed, err := r.queue.Claim(t.Context(), outbox.Claim{Max: 50, Lease: time.Hour})
		require.NoError(t, err)
		for _, d := range claimed {
			_, err = r.queue.Settle(t.Context(),
				outbox.Settlement{Lease: d.Lease, Outcome: outbox.Outcome{Result: outbox.Dead}})
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		fields := r.forms("selection?queue=outbox", "selection")[0]
		fields.Set("rate", "1")
		start := time.Now()
		w := r.do(http.MethodPost, "selection", fields)
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), "Continue")
		require.Equal(t, 20*time.Second, time.Since(start))
		redriven := r.act().Redriven
		require.Equal(t, 53-redriven, r.stats().Dead)
		require.Positive(t, redriven)
		require.NoError(t, r.act().Err)
	})
}

func TestSelectionWithAWrongRateOrWithoutLettersIsRefused(t *testing.T) {
	r := newRig(t)
	for _, rate := range []string{"", "0", "-1", "1001", "x"} {
		w := r.do(http.MethodPost, "selection", url.Values{"queue": {"outbox"}, "rate": {rate}})
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, rate)
	}
	for _, none := range []url.Values{{"type": {"none"}}, {"to": {"none"}}} {
		none.Set("queue", "outbox")
		none.Set("rate", "10")
		require.Equal(t, http.StatusConflict, r.do(http.MethodPost, "selection", none).Code)
	}
	require.Equal(t, 3, r.stats().Dead)
	require.Empty(t, r.acts)
}

func TestEnableMakesADisabledDestinationReceiveAgain(t *testing.T) {
	r := newRig(t)
	fields := r.forms("./", "enable")[0]
	w := r.do(http.MethodPost, "enable", fields)
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body.String())
	require.Contains(t, r.get(w.Header().Get("Location")), "The destination is enabled")
	disabled, err := r.queue.Disabled(t.Context())
	require.NoError(t, err)
	require.Empty(t, disabled)
	require.Equal(t, console.Act{
		Author: "ana", Action: "enable", Queue: "outbox", Destination: "https://closed.example/hooks?***",
	}, r.act())
	require.Equal(t, http.StatusNotFound, r.do(http.MethodPost, "enable", fields).Code)
}

func TestNamesAreEscaped(t *testing.T) {
	r := newRig(t)
	const name = `"><script>alert(1)</script>&x=1`
	require.NoError(t, r.call(name, "/other"))
	for _, page := range []string{"operation?name=" + url.QueryEscape(name), "find?q=" + url.QueryEscape(name)} {
		w := r.do(http.MethodGet, page, nil)
		require.Equal(t, http.StatusOK, w.Code)
		require.NotContains(t, w.Body.String(), "<script")
	}
	require.NotEmpty(t, r.link("find?q="+url.QueryEscape(name), "operation?name=%22%3E"))
}

// The password has a question mark that is not escaped.
func TestDestinationThatIsNoURLShowsNoPassword(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.queue.Append(t.Context(), outbox.Event{
		ID: "refund-2", Destination: "https://user:" + secret + "?@shop.example/hooks",
	}))
	require.Contains(t, r.get("events?queue=outbox"), "a URL that can't be read")
	require.NotContains(t, r.get("events?queue=outbox"), secret)
}

func TestStoreThatFailsIsShown(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.store.Close())
	require.Contains(t, r.get("./"), "closed")
	require.Contains(t, r.get("operations"), "closed")
	require.Equal(t, http.StatusBadGateway, r.do(http.MethodGet, "operation?name=refund:down", nil).Code)
	require.False(t, errors.Is(r.call("refund:x", "/x"), store.ErrNotFound))
}

// A name with a control of direction looks like another one. The page shows the control, and its forms keep the name.
func TestControlOfDirectionInANameIsVisible(t *testing.T) {
	r := newRig(t)
	const name = "refund:\u202Egnidnep"
	require.Error(t, r.call(name, "/down"))
	list := r.get("operations")
	require.Contains(t, list, `>refund:\u202egnidnep</a>`)
	require.NotContains(t, list, "\u202E")
	page := r.get("operation?name=" + url.QueryEscape(name))
	require.Contains(t, page, `value="`+name+`"`)
	require.Contains(t, page, `<h1>refund:\u202egnidnep</h1>`)
}
