package taxonomy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A vector is one row of testdata/taxonomy.json.
type vector struct {
	Name          string
	Status        int
	Headers       map[string]string
	Body          string
	Transport     string
	TransportCode Code `json:"transport_code"`
	Sent          bool
	Caller        string
	StatusCodes   map[int]Code `json:"status_codes"`
	Want          struct {
		Code   Code
		Class  string
		Effect string
		Said   bool
		Final  bool
	}
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	raw, err := os.ReadFile("testdata/taxonomy.json")
	require.NoError(t, err)
	var file struct{ Vectors []vector }
	require.NoError(t, json.Unmarshal(raw, &file))
	require.NotEmpty(t, file.Vectors)
	return file.Vectors
}

func (v vector) answer(t *testing.T) Answer {
	t.Helper()
	a := Answer{
		Sent: v.Sent, Status: v.Status, Header: http.Header{}, Body: []byte(v.Body),
		Directives: DefaultDirectives, StatusCodes: v.StatusCodes,
	}
	for name, value := range v.Headers {
		a.Header.Set(name, value)
	}
	switch v.Caller {
	case "":
	case "canceled":
		a.Caller = context.Canceled
	case "deadline":
		a.Caller = context.DeadlineExceeded
	default:
		t.Fatalf("unknown caller %q", v.Caller)
	}
	switch v.Transport {
	case "":
	case "coded":
		a.Err = fmt.Errorf("client: %w", v.TransportCode)
	default:
		err, ok := transportErrors[v.Transport]
		require.True(t, ok, "unknown transport %q", v.Transport)
		// The way an http.Client returns it.
		a.Err = &url.Error{Op: "Post", URL: "http://api.test/", Err: err}
	}
	return a
}

// transportErrors has the shape that net/http gives each kind; transport_test.go checks the same codes
// against errors that net/http really made.
var transportErrors = map[string]error{
	"timeout":          fmt.Errorf("attempt: %w", context.DeadlineExceeded),
	"refused":          &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
	"reset":            &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)},
	"broken pipe":      &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)},
	"eof":              io.EOF,
	"truncated":        io.ErrUnexpectedEOF,
	"goaway":           goAwayError{LastStreamID: 3},
	"refused stream":   streamError{StreamID: 1, Code: refusedStream},
	"stream reset":     streamError{StreamID: 1, Code: 2},
	"unknown host":     &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Name: "no.test", IsNotFound: true}},
	"dns failure":      &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Name: "api.test", IsTemporary: true}},
	"dns timeout":      &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Name: "api.test", IsTimeout: true}},
	"certificate":      &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
	"not tls":          tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
	"scheme mismatch":  http.ErrSchemeMismatch,
	"bad url":          &url.Error{Op: "parse", URL: "::", Err: errors.New("missing protocol scheme")},
	"bad address":      &net.OpError{Op: "dial", Net: "tcp", Err: &net.AddrError{Err: "invalid port", Addr: "99999"}},
	"other":            errors.New("something else"),
	"attempt canceled": context.Canceled,
}

// errCode, streamError and goAwayError have the fields of the errors in golang.org/x/net/http2.
type errCode uint32

type streamError struct {
	StreamID uint32
	Code     errCode
	Cause    error
}

func (streamError) Error() string { return "stream error" }

type goAwayError struct {
	LastStreamID uint32
	ErrCode      errCode
	DebugData    string
}

func (goAwayError) Error() string { return "goaway" }

func TestEveryRowOfTheTable(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			got := Classify(v.answer(t))
			require.Equal(t, v.Want.Code, got.Code, "code")
			require.Equal(t, v.Want.Class, got.Class.String(), "class")
			require.Equal(t, v.Want.Effect, got.Effect.String(), "effect")
			require.Equal(t, v.Want.Said, got.Said, "the server reported it")
			require.Equal(t, v.Want.Final, got.Final, "final")
			require.Equal(t, v.Want.Class == "transient", got.Retry(), "retry")
		})
	}
}

func TestEveryCodeHasAHintAndARow(t *testing.T) {
	rows := map[Code]bool{}
	for _, v := range readVectors(t) {
		rows[v.Want.Code] = true
	}
	for _, c := range Codes() {
		require.True(t, isCode(c), "%s is not FAMILY.name", c)
		require.NotEmpty(t, c.Hint(), c)
		require.True(t, rows[c], "%s has no row in testdata/taxonomy.json", c)
	}
}

func TestClientRetryLog(t *testing.T) {
	for _, row := range readCSV(t, "testdata/client_retry_log.csv") {
		t.Run(row["notes"], func(t *testing.T) {
			a := Answer{Sent: true}
			if row["status"] == "timeout" {
				a.Err = context.DeadlineExceeded
			} else {
				var err error
				a.Status, err = strconv.Atoi(row["code"])
				require.NoError(t, err)
			}
			want, ok := map[string]Verdict{
				"timeout": {Code: Timeout, Class: ClassTransient},
				"5xx":     {Code: Unavailable, Class: ClassTransient},
				"200":     {Class: ClassSuccess, Effect: Applied},
			}[row["status"]]
			require.True(t, ok, "status %q", row["status"])
			require.Equal(t, want, Classify(a))
		})
	}
}

func TestReplayOutcomes(t *testing.T) {
	for _, row := range readCSV(t, "testdata/replay_outcomes.csv") {
		t.Run(row["notes"], func(t *testing.T) {
			status, err := strconv.Atoi(row["http_code"])
			require.NoError(t, err)
			a := Answer{Sent: true, Status: status, Header: http.Header{}}
			var want Verdict
			switch row["notes"] {
			case "created":
				want = Verdict{Class: ClassSuccess, Effect: Applied}
			case "replayed":
				a.Header.Set("Idempotency-Status", "replayed")
				want = Verdict{Class: ClassSuccess, Effect: Applied, Final: true}
			case "payload mismatch":
				a.Header.Set("Error-Code", string(PayloadMismatch))
				want = Verdict{Code: PayloadMismatch, Effect: NotApplied, Said: true}
			default:
				t.Fatalf("unknown row %v", row)
			}
			require.Equal(t, want, Classify(a))
		})
	}
}

func readCSV(t *testing.T, path string) []map[string]string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Greater(t, len(lines), 1)
	var rows []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return rows
}
