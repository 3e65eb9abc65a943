package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// workers is the number of operations that a client works on at a time.
const workers = 8

// A customer is a client's process. It makes one operation after another, and continues those of its predecessor.
type customer struct {
	role   role
	client *redo.Client // keeps outcomes
	again  *redo.Client // sends complete operations again
	notes  *diary
	name   string // of the process
	next   atomic.Int64
	calls  atomic.Int64

	mu       sync.Mutex
	open     map[string]bool // operations that have begun and not ended
	done     []string        // operations with a success
	finished bool            // no operation begins any more
}

func runClient(ctx context.Context, r role) error {
	path := filepath.Join(r.Dir, r.Name+".calls")
	past, err := readDiary[call](path)
	if err != nil {
		return err
	}
	c := &customer{role: r, name: randomName(), open: map[string]bool{}}
	c.read(past)
	if c.notes, err = openDiary(path); err != nil {
		return err
	}
	var ops store.Store
	if r.Defect == forgetful {
		ops = memstore.New()
	} else if ops, err = boltstore.Open(filepath.Join(r.Dir, r.Name+".redo")); err != nil {
		return err
	}
	opts := []redo.Option{
		redo.WithStore(ops), redo.WithTransport(c.transport()), redo.WithRetry(quick),
		redo.WithBudget(limit.Budget{Unlimited: true}),
	}
	if c.client, err = redo.New(opts...); err != nil {
		return err
	}
	if c.again, err = redo.New(append(opts, redo.WithServerReplay())...); err != nil {
		return err
	}
	stage.On("finish", func([]string) (any, error) { return nil, c.finish() })
	stage.On("open", func([]string) (any, error) { return c.unsettled(), nil })
	stage.On("replay", func([]string) (any, error) { return nil, c.replay(ctx) })
	stage.Up("")
	return c.work(ctx)
}

// read continues where the process before was killed.
func (c *customer) read(past []call) {
	last := int64(0)
	settled := map[string]bool{}
	for _, one := range past {
		var client, n int64
		if _, err := fmt.Sscanf(one.Operation, "op%d-%d", &client, &n); err == nil {
			last = max(last, n)
		}
		if one.settles() && !settled[one.Operation] {
			settled[one.Operation] = true
			if one.Code == "" {
				c.done = append(c.done, one.Operation)
			}
		}
	}
	for _, one := range past {
		if !settled[one.Operation] {
			c.open[one.Operation] = true
		}
	}
	c.next.Store(last)
}

// transport adds the user, as a session in front of redo would.
func (c *customer) transport() http.RoundTripper {
	next := &http.Transport{MaxIdleConnsPerHost: workers}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set(userHeader, c.role.Name)
		if c.role.Defect == freshKeys {
			r.Header.Set("Idempotency-Key", randomName())
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// work settles the open operations, resumes those that the store lists, and begins new ones.
func (c *customer) work(ctx context.Context) error {
	past := make(chan string, len(c.open))
	for name := range c.open {
		past <- name
	}
	close(past)
	failed := make(chan error, workers+1)
	go func() {
		if err := c.resume(ctx); err != nil {
			failed <- err
		}
	}()
	for range workers {
		go func() {
			for name := range past {
				if err := c.settle(ctx, name); err != nil {
					failed <- err
					return
				}
			}
			for {
				time.Sleep(rand.N(60 * time.Millisecond))
				name, ok := c.begin()
				if !ok {
					return
				}
				if err := c.settle(ctx, name); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed // or it is killed
}

// begin returns the next operation. Its number tells the way to the service.
func (c *customer) begin() (name string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished {
		return "", false
	}
	name = fmt.Sprintf("op%s-%d", c.role.Name[len("client"):], c.next.Add(1))
	c.open[name] = true
	return name, true
}

func (c *customer) finish() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = true
	return nil
}

func (c *customer) unsettled() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := []string{}
	for name := range c.open {
		names = append(names, name)
	}
	return names
}

// settle calls an operation until it comes to its end.
func (c *customer) settle(ctx context.Context, name string) error {
	for {
		bounded, cancel := context.WithCancel(ctx)
		if rand.IntN(10) == 0 { // an impatient caller
			cancel()
			bounded, cancel = context.WithTimeout(ctx, rand.N(100*time.Millisecond))
		}
		end, err := c.call(bounded, c.client, name, ends)
		cancel()
		if err != nil {
			return err
		}
		if end.settles() {
			c.mu.Lock()
			delete(c.open, name)
			if end.Code == "" {
				c.done = append(c.done, name)
			}
			c.mu.Unlock()
			return nil
		}
		time.Sleep(rand.N(50 * time.Millisecond))
	}
}

// call makes one call, and writes its begin and its end. Its error is that of the diary.
func (c *customer) call(ctx context.Context, client *redo.Client, name, kind string) (call, error) {
	end, err := c.noteBegin(name)
	if err != nil {
		return end, err
	}
	req, err := c.request(redo.WithOperation(ctx, name), name)
	if err != nil {
		return end, err
	}
	resp, err := client.Do(req)
	return c.noteEnd(end, kind, resp, err)
}

// request returns the request of an operation. Every third one goes past the gateways.
func (c *customer) request(ctx context.Context, name string) (*http.Request, error) {
	var client, n int
	if _, err := fmt.Sscanf(name, "op%d-%d", &client, &n); err != nil {
		return nil, err
	}
	base := c.role.Front
	if n%3 == 0 {
		base = c.role.Back
	}
	body, err := json.Marshal(map[string]any{"operation": name, "amount": n})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/orders?operation="+name, bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// noteBegin writes the begin of a call.
func (c *customer) noteBegin(name string) (call, error) {
	begun := call{Operation: name, Process: c.name, Number: c.calls.Add(1), Kind: begins, At: time.Now()}
	return begun, c.notes.write(begun)
}

// noteEnd writes the end of a call.
func (c *customer) noteEnd(end call, kind string, resp *http.Response, err error) (call, error) {
	end.Kind = kind
	if err == nil {
		var body []byte
		body, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		end.Body = string(body)
	}
	if err != nil {
		end.Code, end.Body = "body broken off", ""
		if e, ok := errors.AsType[*redo.Error](err); ok {
			end.Code, end.Effect = string(e.Code), e.Effect.String()
			end.Final = !redo.SafeToRetry(err) && !e.Code.In(taxonomy.Caller)
		}
	}
	end.At = time.Now()
	return end, c.notes.write(end)
}

// resume continues the operations that the store lists, beside the workers' calls of the same ones.
func (c *customer) resume(ctx context.Context) error {
	for op, err := range c.client.Pending(ctx) {
		if err != nil {
			return err
		}
		end, err := c.noteBegin(op.Name)
		if err != nil {
			return err
		}
		resp, err := c.client.Resume(ctx, op)
		if _, err := c.noteEnd(end, resumes, resp, err); err != nil {
			return err
		}
	}
	return nil
}

// replay sends each operation that succeeded again. It returns before that has ended.
func (c *customer) replay(ctx context.Context) error {
	c.mu.Lock()
	names := c.done
	for _, name := range names {
		c.open[name] = true
	}
	c.mu.Unlock()
	todo := make(chan string, len(names))
	for _, name := range names {
		todo <- name
	}
	close(todo)
	for range workers {
		go func() {
			for name := range todo {
				for {
					end, err := c.call(ctx, c.again, name, replays)
					if err != nil {
						return // the operation stays open
					}
					if end.Code == "" || end.Final {
						break
					}
				}
				c.mu.Lock()
				delete(c.open, name)
				c.mu.Unlock()
			}
		}()
	}
	return nil
}
