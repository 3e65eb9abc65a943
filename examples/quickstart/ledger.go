package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// An Entry is one effect: money that moved.
type Entry struct {
	Number    int    `json:"number"`
	ID        string `json:"id"`
	Kind      string `json:"kind"` // payment, refund or void
	Key       string `json:"key"`  // of the request that it was done for
	Reference string `json:"reference"`
	Payment   string `json:"payment"`
	Amount    int    `json:"amount"`
}

// errRefused is the refusal of a request that the business does not allow. Nothing was written.
var errRefused = errors.New("refused")

// A ledger is the service's record of its effects, in a separate file: one JSON line an effect, synced before the
// response. It notes keys and never refuses one, so that it can prove a duplicate.
type ledger struct {
	mu   sync.Mutex
	file *os.File
	done []Entry
	left map[string]int // the rest of each payment
}

func openLedger(path string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l := &ledger{file: f, left: map[string]int{}}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(l.done)+1, err)
		}
		l.apply(e)
	}
	return l, nil
}

func (l *ledger) pay(key string, r PaymentRequest) (Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Amount <= 0 {
		return Entry{}, fmt.Errorf("%w: an amount of %s", errRefused, cents(r.Amount))
	}
	id := l.id("py")
	return l.write(Entry{ID: id, Kind: "payment", Key: key, Reference: r.Reference, Payment: id, Amount: r.Amount})
}

func (l *ledger) refund(key string, r RefundRequest) (Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := l.left[r.Payment]; r.Amount <= 0 || r.Amount > left {
		return Entry{}, fmt.Errorf("%w: a refund of %s, %s are left of %s",
			errRefused, cents(r.Amount), cents(left), r.Payment)
	}
	return l.write(Entry{
		ID: l.id("rf"), Kind: "refund", Key: key, Reference: r.Reference, Payment: r.Payment, Amount: r.Amount,
	})
}

func (l *ledger) void(key string, r VoidRequest) (Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left[r.Payment] == 0 {
		return Entry{}, fmt.Errorf("%w: nothing is left of %s", errRefused, r.Payment)
	}
	return l.write(Entry{
		ID: l.id("vd"), Kind: "void", Key: key, Reference: r.Reference, Payment: r.Payment, Amount: l.left[r.Payment],
	})
}

func (l *ledger) id(prefix string) string { return fmt.Sprintf("%s_%d", prefix, len(l.done)+1) }

// find returns the effect of a key. Keys are the client's, and this service has one client.
func (l *ledger) find(key string) (Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.done, func(e Entry) bool { return e.Key == key })
	if i < 0 {
		return Entry{}, false
	}
	return l.done[i], true
}

func (l *ledger) write(e Entry) (Entry, error) {
	e.Number = len(l.done) + 1
	line, err := json.Marshal(e)
	if err != nil {
		return Entry{}, err
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return Entry{}, err
	}
	if err := l.file.Sync(); err != nil {
		return Entry{}, err
	}
	l.apply(e)
	return e, nil
}

func (l *ledger) apply(e Entry) {
	l.done = append(l.done, e)
	if e.Kind == "payment" {
		l.left[e.Payment] = e.Amount
		return
	}
	l.left[e.Payment] -= e.Amount
}

func (l *ledger) entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Entry{}, l.done...)
}
