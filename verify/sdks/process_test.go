package sdks

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store/boltstore"
)

// commandVariable is the environment variable that makes the test binary run a command instead of the tests.
const commandVariable = "REDO_SDKS_COMMAND"

// A command is one call of the operation in a separate process.
type command struct {
	SDK     string
	URL     string
	Store   string // the path of the operations' file
	Derived bool   // derived keys instead of the store
}

func TestMain(m *testing.M) {
	text := os.Getenv(commandVariable)
	if text == "" {
		flag.Parse()
		if err := flag.Set("test.parallel", "64"); err != nil { // the cases wait, they do not compute
			panic(err)
		}
		os.Exit(m.Run())
	}
	id, err := execute(text)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(id)
}

// execute runs a command in this process.
func execute(text string) (id string, err error) {
	var c command
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return "", err
	}
	for _, s := range all() {
		if s.name == c.SDK {
			return c.run(s)
		}
	}
	return "", fmt.Errorf("no SDK has the name %q", c.SDK)
}

func (c command) run(s sdk) (id string, err error) {
	opts := append([]redo.Option{redo.WithRetry(quick)}, s.options...)
	if c.Derived {
		opts = append(opts, redo.WithKeys(redo.DerivedKeys("test")))
	} else {
		st, err := boltstore.Open(c.Store)
		if err != nil {
			return "", err
		}
		defer func() { _ = st.Close() }()
		opts = append(opts, redo.WithStore(st))
	}
	client, err := redo.New(opts...)
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }()
	return s.run(s.named(context.Background()), client, c.URL, false)
}

// A process is a command that runs.
type process struct {
	cmd    *exec.Cmd
	output bytes.Buffer  // complete when ended is closed
	ended  chan struct{} // closed when the process has ended
}

// start starts a process for the command. It is killed at the test's end if it still runs.
func start(t *testing.T, c command) *process {
	t.Helper()
	text, err := json.Marshal(c)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{cmd: exec.CommandContext(t.Context(), self), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), commandVariable+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	return p
}

// kill ends the process with SIGKILL.
func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	<-p.ended
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGKILL, status.Signal())
}
