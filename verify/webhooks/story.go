package main

import (
	"context"
	"fmt"

	"github.com/redo-go/redo/internal/stage"
)

// A scene is one thing that goes wrong.
type scene struct {
	title string
	part  string // the client's work
	// requests and webhooks list the faults of the producer's requests and of the consumer's.
	requests, webhooks string
	applies            string // the operation that is to be in both ledgers, once, when it is over
	run                func(*system, scene) error
}

var scenes = []scene{
	{title: "A payment, and nothing goes wrong", part: "payment", applies: "payment:1138"},
	{
		title: "The consumer's response is lost", part: "refund shoes 1000", webhooks: stage.Lose,
		applies: "refund:1138:shoes",
	},
	{
		title: "The consumer returns 503, then 429 with Retry-After", part: "refund hat 500",
		webhooks: stage.Unavailable + " " + stage.Limited, applies: "refund:1138:hat",
	},
	{
		title: "The webhook is lost, then its response is cut off", part: "refund scarf 800",
		webhooks: stage.Reset + " " + stage.Truncate, applies: "refund:1138:scarf",
	},
	{
		title: "The consumer is killed after its commit and before its response", part: "refund coat 2000",
		webhooks: stage.Hold, applies: "refund:1138:coat", run: killing("consumer", "consumer"),
	},
	{
		title: "The relay is killed while its webhook is under way", part: "refund gloves 900",
		webhooks: stage.Hold, applies: "refund:1138:gloves", run: killing("consumer", "relay"),
	},
	{
		title: "The producer is killed after its commit and before its response", part: "refund belt 700",
		requests: stage.Hold, applies: "refund:1138:belt", run: killing("producer", "producer"),
	},
	{
		title: "The client is killed while the response is under way", part: "refund socks 300",
		requests: stage.Hold, applies: "refund:1138:socks", run: killing("producer", "client"),
	},
	{
		title: "The webhook secret is rotated, and the rest of the payment is voided", part: "void",
		applies: "void:1138", run: rotate,
	},
}

// story plays the scenes and counts the ledgers.
func (s *system) story(ctx context.Context) error {
	var wanted []string
	for i, sc := range scenes {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.timeline.Title(i+1, sc.title)
		run := sc.run
		if run == nil {
			run = plain
		}
		err := s.set(sc)
		if err == nil {
			err = run(s, sc)
		}
		if err == nil {
			err = s.settled(ctx)
		}
		s.timeline.Flush()
		if err != nil {
			return fmt.Errorf("%s: %w", sc.title, err)
		}
		wanted = append(wanted, sc.applies)
	}
	t, err := s.count(wanted)
	if err != nil {
		return err
	}
	t.ledgers(s.out, s.timeline)
	return t.verdict(s.out, s.timeline)
}

func (s *system) set(sc scene) error {
	if err := s.script("producer", sc.requests); err != nil {
		return err
	}
	return s.script("consumer", sc.webhooks)
}

func plain(s *system, sc scene) error { return s.playOut(sc.part) }

// killing plays a scene in which one process holds its response back until a process, maybe itself, is killed.
func killing(holds, dies string) func(*system, scene) error {
	return func(s *system, sc scene) error {
		client, err := s.play(sc.part)
		if err != nil {
			return err
		}
		if err := s.running[holds].Held(); err != nil {
			return err
		}
		switch {
		case dies == "client":
			s.timeline.Note("the client is killed (SIGKILL), and started again on its file")
			client.Kill()
			return s.playOut("resume")
		case dies == "relay" && s.relayer() == "producer":
			s.timeline.Note("the producer, which the relay runs in, is killed (SIGKILL), and started again")
			err = s.restart("producer")
		default:
			s.timeline.Note("the " + dies + " is killed (SIGKILL), and started again")
			err = s.restart(dies)
		}
		if err != nil {
			return err
		}
		return client.Wait()
	}
}

// rotate replaces the secret without refusing a webhook on the way. First the consumer trusts the new secret too.
// Then the relay signs with both, and after that with the new one alone. At last the consumer forgets the old one.
func rotate(s *system, sc scene) error {
	for step := range rotation {
		if err := s.rotate(step); err != nil {
			return err
		}
	}
	return s.playOut(sc.part)
}

// rotation is the timeline's note of each step.
var rotation = []string{
	"the consumer trusts the new secret too",
	"the relay signs with both",
	"the relay signs with the new one alone",
	"the consumer forgets the old one",
}

func (s *system) rotate(step int) error {
	s.timeline.Note(rotation[step])
	switch step {
	case 0:
		s.trusted = []secret{s.new, s.old}
	case 1:
		s.relaying = []secret{s.old, s.new}
	case 2:
		s.relaying = []secret{s.new}
	case 3:
		s.trusted = []secret{s.new}
	}
	if step == 0 || step == 3 {
		return s.restart("consumer")
	}
	return s.restart(s.relayer())
}
