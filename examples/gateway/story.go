package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo/internal/freeport"
	"github.com/redo-go/redo/servertest"
)

const (
	taps   = 400
	phones = 20
	kills  = 5
)

// story sends the taps, kills gateways, and prints the service's effects.
func story() error {
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	service, err := servertest.Serve(l, log.Printf)
	if err != nil {
		return err
	}
	defer service.Close()
	p, err := start(service.URL, filepath.Join(dir, "gateway.redo"))
	if err != nil {
		return err
	}
	defer p.stop()
	link, err := newLink(p.address)
	if err != nil {
		return err
	}
	defer func() { _ = link.Close() }()

	done := make(chan struct{})
	var changed int
	go func() {
		defer close(done)
		changed = tapAll(link.URL())
	}()
	killed := 0
	for wait := true; wait; {
		select {
		case <-done:
			wait = false
		case <-time.After(40 * time.Millisecond):
			if killed == kills {
				continue
			}
			killed++
			if err := p.restart(); err != nil {
				return err
			}
		}
	}
	ledger := service.Ledger()
	fmt.Printf("taps=%d requests=%d lost_connections=%d gateway_kills=%d\n", taps, link.accepted(), link.cut(), killed)
	fmt.Printf("effects=%d duplicates=%d changed_responses=%d\n", ledger.Total(), len(ledger.Duplicates()), changed)
	if ledger.Total() != taps || len(ledger.Duplicates()) > 0 || changed > 0 {
		return errors.New("a tap must have exactly one effect and one response")
	}
	return compare(service.URL, p.address)
}

// tapAll sends each tap twice at the same time, and returns how many pairs of responses differ.
func tapAll(base string) int {
	var mu sync.Mutex
	changed := 0
	var all sync.WaitGroup
	for phone := range phones {
		all.Go(func() {
			for i := range taps / phones {
				var pair [2]string
				var both sync.WaitGroup
				for n := range pair {
					both.Go(func() { pair[n] = tap(base, fmt.Sprintf("user-%d", phone), fmt.Sprintf("tap-%d", i)) })
				}
				both.Wait()
				if pair[0] != pair[1] {
					mu.Lock()
					changed++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return changed
}

// tap repeats a request until there is a success, as an app does, and returns the response's body.
func tap(base, user, key string) string {
	for {
		body, status, err := post(base, user, key)
		if err == nil && status < 300 && status != http.StatusAccepted {
			return body
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func post(base, user, key string) (body string, status int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // a phone is impatient
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/charges", strings.NewReader(`{"amount":1000}`))
	if err != nil {
		return "", 0, err
	}
	req.Header = http.Header{"X-User": {user}, "Idempotency-Key": {key}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), resp.StatusCode, err
}

// compare prints the latency through the gateway beside that through a bare reverse proxy.
func compare(upstream, gateway string) error {
	u, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	bare := &http.Server{Handler: httputil.NewSingleHostReverseProxy(u), ReadHeaderTimeout: time.Second}
	go func() { _ = bare.Serve(l) }() // ends with Close
	defer func() { _ = bare.Close() }()
	fmt.Println("\nlatency         p50       p99")
	for _, way := range []struct{ name, base string }{{"bare proxy", l.Addr().String()}, {"gateway", gateway}} {
		var took []time.Duration
		for i := range 300 {
			begun := time.Now()
			if _, status, err := post("http://"+way.base, "timed", fmt.Sprint(way.name, i)); err != nil ||
				status >= 300 {
				return fmt.Errorf("%s: status %d: %w", way.name, status, err)
			}
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		fmt.Printf("%-10s %8.2fms %8.2fms\n", way.name, ms(took[len(took)/2]), ms(took[len(took)*99/100]))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// A process is a gateway in a separate process.
type process struct {
	cmd                     *exec.Cmd
	upstream, address, file string
}

func start(upstream, file string) (*process, error) {
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	p := &process{upstream: upstream, address: address, file: file}
	return p, p.run()
}

// run starts the process, and returns when it has opened its file.
func (p *process) run() error {
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), "UPSTREAM="+p.upstream, "ADDRESS="+p.address, "FILE="+p.file)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	return err
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill() // SIGKILL
	_ = p.cmd.Wait()
}

func (p *process) restart() error {
	p.stop()
	return p.run()
}
