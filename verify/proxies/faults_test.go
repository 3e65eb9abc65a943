package proxies

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/servertest"
)

func TestAServiceBehindTheProxyConforms(t *testing.T) {
	for _, p := range products(t) {
		t.Run(p.name, func(t *testing.T) {
			s := newService(t, nil, servertest.Handler(http.HandlerFunc(unique)))
			servertest.Check(t, nil, conformance.Target{
				BaseURL:   s.behind(t, p),
				Operation: conformance.Operation{Method: "POST", Path: "/orders", Body: `{"item":"{{payload}}"}`},
				Effects:   &conformance.Effects{ResponseID: "id"},
			})
		})
	}
}

// unique responds with an ID that is another one on each server.
func unique(w http.ResponseWriter, r *http.Request) {
	if _, err := servertest.Effect(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]string{"id": uuid.NewString()})
}

func TestACallThroughTheProxyHasOneEffect(t *testing.T) {
	faults := map[string]servertest.Fault{
		"reset before read":  servertest.ResetBeforeRead(),
		"reset after effect": servertest.ResetAfterEffect(),
		"close after effect": servertest.CloseAfterEffect(),
		"truncated body":     servertest.TruncatedBody(10),
		"duplicate":          servertest.Duplicate(),
		"503":                servertest.Status(503),
		"500 after effect":   servertest.StatusAfterEffect(500),
		"502 page":           servertest.HTMLError(502),
	}
	for _, p := range products(t) {
		for name, fault := range faults {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				s := newService(t, []servertest.Fault{fault})
				e := order(t, s.behind(t, p))
				require.Nil(t, e)
				assert.Equal(t, 1, s.effects())
			})
		}
	}
}

func TestAProxyThatGivesUpEarlyCausesNoSecondEffect(t *testing.T) {
	for _, p := range products(t) {
		t.Run(p.name, func(t *testing.T) {
			s := newService(t, []servertest.Fault{servertest.DelayInHandler(1500 * time.Millisecond)})
			e := order(t, s.behind(t, p.changed(t, "75s", "1s")))
			require.Nil(t, e)
			assert.Equal(t, 1, s.effects())
		})
	}
}

// The service closes a connection that nginx keeps, at the moment of the next request. HAProxy keeps none here.
func TestAClosedConnectionOfTheProxyCausesNoSecondEffect(t *testing.T) {
	srv := servertest.New(t, servertest.ScriptNext(servertest.StaleKeepAlive()))
	url := nginx(t).start(t, hostOf(srv), hostOf(srv))
	client := newClient(t)
	require.Nil(t, send(t, client, url, `{"amount":1}`))
	require.Nil(t, send(t, client, url, `{"amount":2}`))
	assert.Equal(t, 2, srv.Ledger().Total())
}

// A proxy that repeats requests on its own reaches the record of the first one.
func TestAProxyThatRepeatsARequestCausesNoSecondEffect(t *testing.T) {
	for _, p := range products(t) {
		t.Run(p.name, func(t *testing.T) {
			p = p.changed(t, p.repeats[0], p.repeats[1])
			lost := []servertest.Fault{servertest.ResetAfterEffect()}

			s := newService(t, lost)
			resp, err := post(t, s.behind(t, p), "k1")
			require.NoError(t, err)
			assert.Equal(t, http.StatusCreated, resp.StatusCode)
			assert.Equal(t, "true", resp.Header.Get("Idempotent-Replayed"))
			assert.Equal(t, 1, s.effects())

			first := servertest.New(t, servertest.Bare(), servertest.ScriptNext(lost...))
			bare := service{first, servertest.New(t, servertest.Bare())}
			_, err = post(t, bare.behind(t, p), "k1")
			require.NoError(t, err)
			assert.Equal(t, 2, bare.effects(), "without the middleware")
		})
	}
}

// By default nginx repeats a request that it has sent, if its method is idempotent.
func TestWhichRequestsTheProxyRepeatsByDefault(t *testing.T) {
	for _, p := range products(t) {
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			t.Run(p.name+"/"+method, func(t *testing.T) {
				first := servertest.New(t, servertest.Bare(), servertest.ScriptNext(servertest.ResetAfterEffect()))
				s := service{first, servertest.New(t, servertest.Bare())}
				req := newRequest(t, s.behind(t, p), `{"amount":1}`)
				req.Method = method
				resp, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				want := 1
				if p.name == "nginx" && method != "POST" {
					want = 2
				}
				assert.Equal(t, want, s.effects())
			})
		}
	}
}
