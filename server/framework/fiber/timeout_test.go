package redofiber_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/timeout"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	redofiber "github.com/redo-go/redo/server/framework/fiber"
	"github.com/redo-go/redo/store/memstore"
)

// A locked buffer is written to by requests that may not have ended.
type locked struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// fiber's own timeout returns while the handler is still running, so the effect is unknown.
func TestAHandlerThatTheTimeoutLeftRunningNeverRunsAgain(t *testing.T) {
	for name, opts := range map[string][]server.Option{"plain": nil, "silence is a success": {server.SilentOK()}} {
		t.Run(name, func(t *testing.T) {
			var log locked
			mw, err := server.New(memstore.New(), append(opts, server.SharedKeys(),
				server.Logger(slog.New(slog.NewTextHandler(&log, nil))))...)
			require.NoError(t, err)
			runs, release, ended := make(chan struct{}, 9), make(chan struct{}), make(chan struct{}, 9)
			app := fiber.New()
			app.Post("/x", redofiber.Middleware(mw), timeout.New(func(c fiber.Ctx) error {
				runs <- struct{}{}
				<-release
				defer func() { ended <- struct{}{} }()
				return c.SendStatus(http.StatusCreated)
			}, timeout.Config{Timeout: time.Millisecond}))
			url := serve(t, app)
			for _, want := range []int{http.StatusRequestTimeout, http.StatusConflict, http.StatusConflict} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/x", http.NoBody)
				require.NoError(t, err)
				req.Header.Set("Idempotency-Key", "k")
				resp, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, want, resp.StatusCode)
				if want == http.StatusConflict {
					require.Equal(t, "CONFLICT.idempotency.outcome_unknown", resp.Header.Get("Error-Code"))
				}
			}
			require.Len(t, runs, 1)
			require.Contains(t, log.String(), "level=ERROR")
			close(release)
			<-ended
		})
	}
}
