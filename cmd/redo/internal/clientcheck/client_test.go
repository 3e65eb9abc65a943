package clientcheck_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo/cmd/redo/internal/clientcheck"
)

// clientArgument makes the test binary run a client instead of the tests.
const clientArgument = "run-test-client"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == clientArgument {
		var c client
		if err := json.Unmarshal([]byte(os.Args[2]), &c); err != nil {
			panic(err)
		}
		if err := c.call(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // the cases wait, they do not compute
		panic(err)
	}
	os.Exit(m.Run())
}

// A client is one that keeps all rules, with one flaw if Flaw is set. The flaw shows in the case In only, or in all
// cases if In is empty.
type client struct {
	Retries int
	Backoff time.Duration
	Key     string // "operation" or "file": where the key comes from
	Header  string
	Quoted  bool
	Timeout time.Duration // of an attempt, where the flaw shows; otherwise 3 s
	Follows bool          // it follows redirects within the origin
	Flaw    string
	In      string
	Once    string // a file that the flaw's first run writes; the flaw shows only in that run
}

// right is a client that keeps all rules.
func right() client {
	return client{
		Retries: 4, Backoff: 10 * time.Millisecond, Key: "operation", Header: "Idempotency-Key",
		Follows: true,
	}
}

func (c client) command(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, clientArgument, string(text)}
}

// flawed reports whether the client has the flaw in the case that runs.
func (c client) flawed(flaw string) bool {
	slug, _, _ := strings.Cut(os.Getenv(clientcheck.EnvOperation), ":")
	return c.Flaw == flaw && (c.In == "" || c.In == slug)
}

var errFinal = errors.New("not retried")

// call makes the call, and sends it again as long as that may help.
func (c client) call() error {
	if _, err := os.Stat(c.Once); c.Once != "" && c.flawed(c.Flaw) {
		if err == nil {
			c.Flaw = ""
		} else if err := os.WriteFile(c.Once, nil, 0o600); err != nil {
			return err
		}
	}
	retries := c.Retries
	if c.flawed("endless") {
		retries = 30
	}
	begun := filepath.Join(os.Getenv(clientcheck.EnvDir), "begun")
	if _, err := os.Stat(begun); err == nil && c.flawed("done-before-response") {
		return nil
	}
	if err := os.WriteFile(begun, nil, 0o600); err != nil {
		return err
	}
	key, err := c.key()
	if err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		wait, err := c.send(key, attempt)
		if err == nil || c.flawed("claims-success") {
			return nil
		}
		retry := attempt < retries && (!errors.Is(err, errFinal) || c.flawed("retries-all"))
		if !retry || wait > 10*time.Second && !c.flawed("ignores-hint") {
			return err
		}
		if c.flawed("ignores-hint") {
			wait = 0
		}
		time.Sleep(max(wait, c.Backoff))
		if c.flawed("new-key") {
			key = rand.Text()
		}
	}
}

func (c client) key() (string, error) {
	switch {
	case c.flawed("no-key"):
		return "", nil
	case c.flawed("constant-key"):
		return "constant", nil
	case c.flawed("key-in-memory"):
		return rand.Text(), nil
	case c.flawed("long-key"):
		return strings.Repeat("k", 256), nil
	case c.Key != "file":
		return os.Getenv(clientcheck.EnvOperation), nil
	}
	name := filepath.Join(os.Getenv(clientcheck.EnvDir), "key") // the directory is the operation's own
	if kept, err := os.ReadFile(name); err == nil {
		return string(kept), nil
	}
	key := rand.Text()
	return key, os.WriteFile(name, []byte(key), 0o600)
}

// send makes one attempt. It returns the wait that the server requires.
func (c client) send(key string, attempt int) (wait time.Duration, err error) {
	body := `{"amount":1}`
	if c.flawed("new-payload") {
		body = fmt.Sprintf(`{"amount":1,"attempt":%d}`, attempt)
	}
	req, err := http.NewRequest(http.MethodPost, os.Getenv(clientcheck.EnvURL), bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.Quoted {
		key = `"` + key + `"`
	}
	if key != "" {
		req.Header.Set(c.Header, key)
	}
	if c.flawed("two-lines") {
		req.Header.Add(c.Header, key)
	}
	timeout := 3 * time.Second
	if c.Timeout > 0 && c.flawed(c.Flaw) {
		timeout = c.Timeout
	}
	h := http.Client{Timeout: timeout, CheckRedirect: c.follow}
	resp, err := h.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	switch s := resp.StatusCode; {
	case c.flawed("status-only") && s < 300:
		return 0, nil
	case err != nil:
		return 0, err
	case resp.Request.Method != http.MethodPost && !c.flawed("follows-get"):
		return 0, fmt.Errorf("%w: redirected to a GET", errFinal)
	case s == http.StatusNoContent:
		return 0, nil
	case s < 300:
		return 0, json.Unmarshal(content, &struct{}{})
	case s == 409, s == 425, s == 429, s >= 500 && s != 501:
		return hinted(resp), fmt.Errorf("status %d", s)
	default:
		return 0, fmt.Errorf("%w: status %d", errFinal, s)
	}
}

// follow decides about a redirect. net/http keeps the key's header for every origin.
func (c client) follow(req *http.Request, via []*http.Request) error {
	if c.flawed("drops-key-on-redirect") {
		req.Header.Del(c.Header)
	}
	if req.URL.Host != via[0].URL.Host && !c.flawed("follows-anywhere") || !c.Follows {
		return http.ErrUseLastResponse
	}
	return nil
}

// hinted returns the wait of Retry-After.
func hinted(resp *http.Response) time.Duration {
	text := resp.Header.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return time.Until(at)
	}
	return 0
}
