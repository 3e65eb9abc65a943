package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/redo-go/redo/internal/stage"
)

// A tally is the result of comparing both ledgers with the requested operations.
type tally struct {
	payments, refunds, voids int // asked for
	producer, consumer       int // entries
	duplicates, lost         int // in either ledger
	strays                   []string
	verified                 map[string]int // webhooks, by the secret that signed them
	entries                  [2][]entry     // the producer's and the consumer's
}

func count(wanted []string, producer, consumer []entry) tally {
	t := tally{
		producer: len(producer), consumer: len(consumer), verified: map[string]int{},
		entries: [2][]entry{producer, consumer},
	}
	for _, name := range wanted {
		switch kindOf(name) {
		case "payment":
			t.payments++
		case "refund":
			t.refunds++
		case "void":
			t.voids++
		}
	}
	for _, ledger := range t.entries {
		seen := map[string]int{}
		for _, e := range ledger {
			if seen[e.Reference]++; seen[e.Reference] > 1 {
				t.duplicates++
			}
			if !slices.Contains(wanted, e.Reference) {
				t.strays = append(t.strays, e.Reference+" was not asked for")
			}
		}
		for _, name := range wanted {
			if seen[name] == 0 {
				t.lost++
			}
		}
	}
	for _, e := range consumer {
		t.verified[e.Verified]++
	}
	t.strays = append(t.strays, differences(producer, consumer)...)
	return t
}

// differences returns the consumer's entries that differ from the producer's, or came in another order.
func differences(producer, consumer []entry) []string {
	var found []string
	made, told := map[string]entry{}, map[string]int{}
	for _, e := range producer {
		made[e.ID] = e
	}
	for _, e := range consumer {
		want := made[e.ID]
		want.Number, want.Key, want.Verified = e.Number, eventID(e.ID), e.Verified
		if e != want {
			found = append(found, fmt.Sprintf("%s at the consumer differs from the producer's", e.ID))
		}
		if made[e.ID].Number < told[e.Payment] {
			found = append(found, e.ID+" came before an earlier one")
		}
		told[e.Payment] = made[e.ID].Number
	}
	return found
}

// ok reports whether each operation is once in each ledger, and nothing else is.
func (t tally) ok() bool {
	asked := t.payments + t.refunds + t.voids
	return asked > 0 && t.producer == asked && t.consumer == asked && t.duplicates == 0 && t.lost == 0 &&
		len(t.strays) == 0
}

func (t tally) String() string {
	return fmt.Sprintf("payments=%d refunds=%d voids=%d producer_effects=%d consumer_effects=%d duplicates=%d lost=%d",
		t.payments, t.refunds, t.voids, t.producer, t.consumer, t.duplicates, t.lost)
}

// ledgers prints both.
func (t tally) ledgers(out io.Writer, timeline *stage.Timeline) {
	for i, owner := range []string{"producer", "consumer"} {
		fmt.Fprintf(out, "\n%s\n", timeline.Paint(stage.Bold, "The "+owner+"'s ledger"))
		for _, e := range t.entries[i] {
			fmt.Fprintf(out, "  %2d  %-10s %8s  %s\n", e.Number, e.ID, cents(e.Amount), e.Reference)
		}
	}
}

// verdict prints the tally, and returns an error if the ledgers do not hold each operation once.
func (t tally) verdict(out io.Writer, timeline *stage.Timeline) error {
	style := stage.Green
	if !t.ok() {
		style = stage.Red
	}
	fmt.Fprintf(out, "\n%s\n", timeline.Paint(style, t.String()))
	if !t.ok() {
		return errors.New("the ledgers do not hold each operation once: " + strings.Join(t.strays, "; "))
	}
	return nil
}
