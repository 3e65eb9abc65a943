package pgoutbox_test

import (
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// A failure has the bytes of a receiver's response, or a part of them. If the database can't hold its characters, the
// failure is stored without them. Otherwise the event, and all that are settled with it, would be sent again and again.
func TestFailuresAreStoredInADatabaseOfAnyEncoding(t *testing.T) {
	for _, encoding := range []string{"LATIN1", "SQL_ASCII", "EUC_JP", "UTF8"} {
		for _, client := range []string{"", "UTF8"} {
			t.Run(encoding+" "+client, func(t *testing.T) {
				p := placeIn(t, encoding)
				p.change = func(c *pgxpool.Config) {
					if client != "" {
						c.ConnConfig.RuntimeParams["client_encoding"] = client
					}
				}
				q, _ := p.open(t)
				require.NoError(t, q.Append(t.Context(), outbox.Event{ID: "sent"}, outbox.Event{ID: "failed"}))
				ds, err := q.Claim(t.Context(), outbox.Claim{Max: 2, Lease: time.Hour})
				require.NoError(t, err)
				require.Len(t, ds, 2)
				why := outbox.Failure{Code: "DEPENDENCY.rejected", Reason: "said \u2028", Response: "\u20ac \xff \x1f \U0001F600"}
				lost, err := q.Settle(t.Context(),
					outbox.Settlement{Lease: ds[0].Lease, Outcome: outbox.Outcome{Result: outbox.Sent}},
					outbox.Settlement{Lease: ds[1].Lease, Outcome: outbox.Outcome{Result: outbox.Dead, Failure: why}})
				require.NoError(t, err)
				require.Empty(t, lost)
				require.NoError(t, q.Disable(t.Context(), "https://shop.example", why))
				reasons := []string{}
				for e, err := range q.Events(t.Context(), outbox.Selection{State: outbox.StateDead}) {
					require.NoError(t, err)
					require.Equal(t, "failed", e.Event.ID)
					reasons = append(reasons, e.History[0].Failure.Reason)
				}
				disabled, err := q.Disabled(t.Context())
				require.NoError(t, err)
				require.Len(t, disabled, 1)
				want := "said ?"
				if encoding == "UTF8" {
					want = why.Reason
				}
				require.Equal(t, []string{want, want}, append(reasons, disabled[0].Why.Reason))
			})
		}
	}
}

// placeIn returns a place in a database of the test's own.
func placeIn(t *testing.T, encoding string) place {
	t.Helper()
	server, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	conn := pgtest.Connect(t, server.String())
	server.Path = fmt.Sprintf("/redo_%d_%d", os.Getpid(), time.Now().UnixNano())
	name := server.Path[1:]
	pgtest.Exec(t, conn, "CREATE DATABASE "+name+" ENCODING '"+encoding+"' LOCALE 'C' TEMPLATE template0")
	t.Cleanup(func() { pgtest.Exec(t, pgtest.Connect(t, pgtest.URL(t)), "DROP DATABASE "+name+" WITH (FORCE)") })
	return place{url: server.String(), schema: "public"}
}
