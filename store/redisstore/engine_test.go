package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/internal/freeport"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// shared is the server that most tests use, each under a different prefix: that of REDO_TEST_REDIS, or a private
// one.
var shared struct {
	once   sync.Once
	engine *engine
	err    error
	number int
	mu     sync.Mutex
}

func TestMain(m *testing.M) {
	if os.Getenv(pausedURL) != "" {
		if err := workPaused(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if shared.engine != nil {
		shared.engine.kill()
		os.RemoveAll(shared.engine.dir)
	}
	os.Exit(code)
}

// sharedURL returns the URL of a server that belongs to all, which a test must not flush or set up.
func sharedURL(t *testing.T) string {
	t.Helper()
	if url := os.Getenv("REDO_TEST_REDIS"); url != "" {
		return url
	}
	binary := engineBinary(t)
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "redo-redis") //nolint:usetesting // it outlives the test that happens to be first
		if err != nil {
			shared.err = err
			return
		}
		shared.engine = &engine{binary: binary, dir: dir}
		shared.err = shared.engine.start()
	})
	require.NoError(t, shared.err)
	return shared.engine.url()
}

// prefix returns a prefix that no other test has, in this run or another. The keys under it are deleted with the
// test.
func prefix(t *testing.T, url string) string {
	t.Helper()
	shared.mu.Lock()
	shared.number++
	p := fmt.Sprintf("redo-test:%d:%d:%d", os.Getpid(), time.Now().UnixNano(), shared.number)
	shared.mu.Unlock()
	t.Cleanup(func() { removeAll(t, url, p) })
	return p
}

// removeAll deletes the keys of a test on a server that others use too.
func removeAll(t *testing.T, url, p string) {
	c, ctx := client(t, url), context.Background() // the test's own has ended
	for _, k := range scan(ctx, t, c, p+":*") {
		require.NoError(t, c.Do(ctx, c.B().Del().Key(k).Build()).Error())
	}
}

// scan returns the keys that match, those of every node of a cluster.
func scan(ctx context.Context, t *testing.T, c rueidis.Client, pattern string) (keys []string) {
	t.Helper()
	for _, n := range c.Nodes() {
		for cursor := uint64(0); ; {
			page, err := n.Do(ctx, n.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
			require.NoError(t, err)
			keys = append(keys, page.Elements...)
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
	return keys
}

// engineBinary returns the program of private servers: the one that REDO_TEST_REDIS_SERVER names, or the one on
// PATH.
func engineBinary(t testing.TB) string {
	t.Helper()
	if name := os.Getenv("REDO_TEST_REDIS_SERVER"); name != "" {
		path, err := exec.LookPath(name)
		require.NoError(t, err, "REDO_TEST_REDIS_SERVER") // no other is meant
		return path
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	unable(t, "no server: REDO_TEST_REDIS is not set, and neither redis-server nor valkey-server is on PATH")
	return ""
}

// unable skips a test that lacks a service. It fails the test if REDO_TEST_REQUIRE is set.
func unable(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("REDO_TEST_REQUIRE") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// An engine is a private server, for tests that set it up in their own way, or kill it.
type engine struct {
	binary string
	dir    string
	config string // the file that comes before the arguments, if any
	args   []string
	port   int
	cmd    *exec.Cmd
	log    bytes.Buffer
}

// A run on one engine must not be taken for one on another.
func TestServerIsTheOneThatIsNamed(t *testing.T) {
	named := filepath.Join(t.TempDir(), "named-server")
	require.NoError(t, os.Symlink(engineBinary(t), named))
	t.Setenv("REDO_TEST_REDIS_SERVER", named)
	require.Equal(t, named, privateEngine(t).info(t, "server")["executable"])
}

// privateEngine starts a server with the settings given as on its command line. It ends with the test.
func privateEngine(t testing.TB, args ...string) *engine {
	t.Helper()
	e := &engine{binary: engineBinary(t), dir: t.TempDir(), args: args}
	require.NoError(t, e.start())
	t.Cleanup(e.kill)
	return e
}

func (e *engine) url() string { return fmt.Sprintf("redis://127.0.0.1:%d/0", e.port) }

// start runs the server, on the port that it had before if it had one, and returns when it responds.
func (e *engine) start() error {
	var err error
	for range 3 { // another program may take the free port first
		port := e.port
		if port == 0 {
			if port, err = freeport.Port(); err != nil {
				return err
			}
		}
		if err = e.run(port); err == nil {
			e.port = port
			return nil
		}
	}
	return err
}

func (e *engine) run(port int) error {
	e.log.Reset()
	var args []string
	if e.config != "" {
		args = append(args, e.config)
	}
	args = append(args, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", e.dir, "--save", "",
		"--maxmemory-policy", "noeviction", "--repl-diskless-sync-delay", "0")
	args = append(args, e.args...)
	e.cmd = exec.Command(e.binary, args...)
	e.cmd.Stdout, e.cmd.Stderr = &e.log, &e.log
	if err := e.cmd.Start(); err != nil {
		return err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); time.Since(begun) < 30*time.Second; <-tick.C {
		if answers(port) {
			return nil
		}
	}
	e.kill()
	return fmt.Errorf("the server does not respond: %s", e.log.String())
}

// answers reports whether a server on the port responds to a PING, or requires a password.
func answers(port int) bool {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprint(c, "PING\r\n")
	reply := make([]byte, 64)
	n, _ := c.Read(reply)
	got := string(reply[:n])
	return strings.HasPrefix(got, "+PONG") || strings.HasPrefix(got, "-NOAUTH")
}

// kill ends the server with SIGKILL, so that it saves nothing.
func (e *engine) kill() {
	if e.cmd == nil || e.cmd.Process == nil {
		return
	}
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
	e.cmd = nil
}

// open opens a store that is closed with the test.
func open(t testing.TB, url string, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	st, err := redisstore.Open(t.Context(), url, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// client connects as a user would who has a client already. It is closed with the test.
func client(t testing.TB, url string) rueidis.Client {
	t.Helper()
	o, err := rueidis.ParseURL(url)
	require.NoError(t, err)
	o.DisableCache = true
	c, err := rueidis.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// command sends a command of the test's own to that very server.
func command(t testing.TB, url string, args ...string) rueidis.RedisResult {
	t.Helper()
	o, err := rueidis.ParseURL(url)
	require.NoError(t, err)
	o.DisableCache, o.ForceSingleClient = true, true
	c, err := rueidis.NewClient(o)
	require.NoError(t, err)
	defer c.Close()
	return c.Do(t.Context(), c.B().Arbitrary(args...).Build())
}
