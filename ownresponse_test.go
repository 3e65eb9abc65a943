package redo_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// A nosyObserver reads the response of every error, and changes its header.
type nosyObserver struct{ read []string }

func (o *nosyObserver) StartOperation(ctx context.Context, _ redo.OperationStart) context.Context {
	return ctx
}

func (o *nosyObserver) EndOperation(_ context.Context, end redo.OperationEnd) {
	if end.Err == nil {
		o.read = append(o.read, "no error")
		return
	}
	body, _ := io.ReadAll(end.Err.Response.Body)
	o.read = append(o.read, string(body))
	end.Err.Response.Header.Set("Location", "changed")
}

// Observer, report and caller may each read the body of an error.
func TestEachReaderOfAnErrorHasAResponseOfItsOwn(t *testing.T) {
	const refusal = `{"error":"the card has expired"}`
	synctest.Test(t, func(t *testing.T) {
		sent, observer := 0, &nosyObserver{}
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			if sent++; sent > 2 {
				return answer(r, 201, ""), nil
			}
			return answer(r, 422, refusal), nil
		}), redo.WithObserver(observer))
		request := func(ctx context.Context) *http.Request { return post(t, ctx, "http://bank.test/", payment) }

		e := fail(t, client, request(t.Context()))
		require.Equal(t, refusal, drain(t, e.Response))

		ctx, report := redo.WithReport(t.Context())
		resp, err := under(client).Do(request(redo.WithKey(ctx, "k")))
		require.NoError(t, err)
		for range 2 {
			require.Equal(t, refusal, drain(t, report.Err().Response))
		}
		require.Equal(t, refusal, drain(t, resp))
		require.Empty(t, resp.Header.Get("Location"))

		_, _ = succeed(t, client, request(t.Context()))
		require.Equal(t, []string{refusal, refusal, "no error"}, observer.read)
	})
}

// The client reads 64 KiB of an error's body. A classifier may take a long success for an error.
func TestReportAndCallerReadTheSameHeadOfALongBody(t *testing.T) {
	for status, means := range map[int]taxonomy.Verdict{200: {}, 422: {Code: taxonomy.BadRequest}} {
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			return answer(r, status, strings.Repeat("x", 2<<20)), nil
		}), redo.WithClassifier(func(*http.Response, []byte, taxonomy.Verdict) taxonomy.Verdict { return means }))
		ctx, report := redo.WithReport(t.Context())
		e := fail(t, client, post(t, ctx, "http://bank.test/", payment))
		head := strings.Repeat("x", 64<<10)
		require.Equal(t, head, drain(t, e.Response))
		require.Equal(t, head, drain(t, report.Err().Response))
	}
}

// Under an SDK it is the whole body: half of a JSON document that ends without an error is a broken one to the SDK.
func TestTransportReturnsALongSuccessWholeThatAClassifierTakesForAFailure(t *testing.T) {
	page := `{"errors":[],"data":"` + strings.Repeat("x", 200<<10) + `"}`
	for _, class := range []taxonomy.Class{taxonomy.ClassTerminal, taxonomy.ClassTransient} {
		for _, stored := range []int{64 << 10, 512 << 10} { // WithMaxStoredBody
			for _, named := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v, %d bytes stored, named %t", class, stored, named), func(t *testing.T) {
					client := connect(t, tripper(func(r *http.Request) (*http.Response, error) { return answer(r, 200, page), nil }),
						quick, redo.WithStore(openStore(t)), redo.WithMaxStoredBody(stored),
						redo.WithClassifier(func(_ *http.Response, head []byte, _ taxonomy.Verdict) taxonomy.Verdict {
							require.Len(t, head, 64<<10)
							return taxonomy.Verdict{Code: "PROVIDER.errors", Class: class}
						}))
					ctx, report := redo.WithReport(t.Context())
					if named {
						ctx = redo.WithOperation(ctx, "op")
					}
					resp, err := under(client).Do(post(t, ctx, "http://bank.test/", payment))
					require.NoError(t, err)
					require.Equal(t, len(page), len(drain(t, resp)))
					head, err := io.ReadAll(report.Err().Response.Body)
					require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the report has only the head")
					require.Len(t, head, 64<<10)
				})
			}
		}
	}
}
