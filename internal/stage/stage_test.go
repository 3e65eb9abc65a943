package stage

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be a part.
func TestMain(m *testing.M) {
	if IsPart() {
		if err := Play(perform); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// perform is the part of these tests. It fails if the role is empty.
func perform(role string) error {
	if role == "" {
		return errors.New("the role is empty")
	}
	On("sum", func(args []string) (any, error) { return len(args), nil })
	voice := Voice("service")
	voice.Say("plays %s", role)
	return Serve("127.0.0.1:0", voice, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		voice.Good("applied %s", r.URL.Path)
		w.WriteHeader(http.StatusCreated)
	}))
}

func startPart(t *testing.T, out *strings.Builder) (*Process, *Timeline, string) {
	t.Helper()
	timeline := NewTimeline(out, map[string]Style{"service": Yellow})
	p, err := Start(timeline, "service", "the bank")
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	address, err := p.Up()
	require.NoError(t, err)
	return p, timeline, "http://" + address
}

// texts returns the timeline's lines without their times.
func texts(timeline *Timeline, out *strings.Builder) []string {
	timeline.Flush()
	var lines []string
	for line := range strings.Lines(out.String()) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), " ms  ")
		lines = append(lines, text)
	}
	return lines
}

func TestReportsAreOnTheTimelineBeforeAnAnswer(t *testing.T) {
	var out strings.Builder
	p, timeline, _ := startPart(t, &out)
	timeline.Note("the end")
	n, err := Ask[int](p, "sum a b c")
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Equal(t, []string{"service  plays the bank", "         the end"}, texts(timeline, &out))
	_, err = Ask[any](p, "nonsense")
	require.EqualError(t, err, `there is no command "nonsense"`)
}

func TestEachFaultIsWhatItsNameSays(t *testing.T) {
	for _, c := range []struct {
		fault   string
		status  int // 0: the connection breaks
		applied bool
	}{
		{None, 201, true},
		{Reset, 0, false},
		{Unavailable, 503, false},
		{Limited, 429, false},
		{Lose, 0, true},
		{Truncate, 0, true},
	} {
		t.Run(c.fault, func(t *testing.T) {
			var out strings.Builder
			p, timeline, url := startPart(t, &out)
			_, err := Ask[any](p, "faults "+c.fault)
			require.NoError(t, err)
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Post(url+"/refund", "text/plain", nil)
			if c.status == 0 {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, c.status, resp.StatusCode)
			}
			_, err = Ask[any](p, "")
			require.NoError(t, err)
			lines := strings.Join(texts(timeline, &out), "\n")
			require.Equal(t, c.applied, strings.Contains(lines, "applied /refund"), lines)
		})
	}
}

func TestAResponseIsHeldUntilAKill(t *testing.T) {
	p, _, url := startPart(t, &strings.Builder{})
	_, err := Ask[any](p, "faults "+Hold)
	require.NoError(t, err)
	failed := make(chan error)
	go func() {
		resp, err := http.Post(url+"/refund", "text/plain", nil)
		if err == nil {
			err = resp.Body.Close()
		}
		failed <- err
	}()
	require.NoError(t, p.Held())
	p.Kill()
	require.Error(t, <-failed)
	_, err = Ask[any](p, "")
	require.ErrorContains(t, err, "the service: ")
}

func TestAPartThatFailsReportsWhy(t *testing.T) {
	p, err := Start(nil, "service", "")
	require.NoError(t, err)
	_, err = p.Up()
	require.ErrorContains(t, err, "before it was up: the service: exit status 1: the role is empty")
	require.ErrorContains(t, p.Wait(), "exit status 1")
}

func TestEqualReportsOfOneProcessAreOneLine(t *testing.T) {
	var out strings.Builder
	timeline := NewTimeline(&out, nil)
	for _, pid := range []int{1, 1, 2} {
		timeline.add(message{Text: "sent", pid: pid})
	}
	require.Equal(t, []string{"sent (2 times)", "sent"}, func() []string {
		lines := texts(timeline, &out)
		for i := range lines {
			lines[i] = strings.TrimSpace(lines[i])
		}
		return lines
	}())
}
