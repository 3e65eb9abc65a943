package shop

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOrders(t *testing.T) {
	const order = `{"account":"a","item":"tea","amount":2}`
	for name, c := range map[string]struct {
		path, body, header, value string
		failure                   error
		status, effects           int
	}{
		"accepted":    {path: "/orders", body: order, status: http.StatusCreated, effects: 1},
		"empty":       {path: "/empty", body: order, status: http.StatusNoContent, effects: 1},
		"large":       {path: "/large", body: order, status: http.StatusOK, effects: 1},
		"slow":        {path: "/orders", body: order, header: HeaderSlow, value: "1ns", status: http.StatusCreated, effects: 1},
		"no amount":   {path: "/orders", body: `{"account":"a"}`, status: http.StatusBadRequest},
		"no JSON":     {path: "/orders", body: "tea", status: http.StatusBadRequest},
		"bank down":   {path: "/orders", body: order, header: HeaderFault, value: "500", status: http.StatusInternalServerError},
		"too many":    {path: "/orders", body: order, header: HeaderFault, value: "429", status: http.StatusTooManyRequests},
		"no effect":   {path: "/orders", body: order, failure: errors.New("lost"), status: http.StatusInternalServerError},
		"other fault": {path: "/orders", body: order, header: HeaderFault, value: "x", status: http.StatusCreated, effects: 1},
	} {
		t.Run(name, func(t *testing.T) {
			effects := 0
			s := Shop{Effect: func(_ *http.Request, o Order) (string, error) {
				if c.failure != nil {
					return "", c.failure
				}
				require.Equal(t, Order{"a", "tea", 2}, o)
				effects++
				return "re_1", nil
			}}
			r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			require.Equal(t, c.status, w.Code)
			require.Equal(t, c.effects, effects)
			if c.status == http.StatusCreated {
				require.Equal(t, c.path+"/re_1", w.Header().Get("Location"))
				require.JSONEq(t, `{"id":"re_1","item":"tea","amount":2}`, w.Body.String())
			}
			if c.path == "/large" {
				require.Equal(t, 1<<20, w.Body.Len())
			}
		})
	}
}

func TestSlowOrderOfAClientThatHasGoneHasNoEffect(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`{"amount":1}`)).WithContext(ctx)
	r.Header.Set(HeaderSlow, "1h")
	w := httptest.NewRecorder()
	Shop{Effect: func(*http.Request, Order) (string, error) { return "", errors.New("an effect") }}.ServeHTTP(w, r)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
}

func TestCrashedOrderHasNoResponse(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`{"amount":1}`))
	r.Header.Set(HeaderFault, "crash")
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { Shop{}.ServeHTTP(httptest.NewRecorder(), r) })
}
