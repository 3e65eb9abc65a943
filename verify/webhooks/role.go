package main

import (
	"context"
	"fmt"
)

// A role is the part of a process. It is sent to the standard input, since secrets on a command line would be seen.
type role struct {
	Name     string   `json:"name"` // client, producer, relay or consumer
	Address  string   `json:"address,omitempty"`
	File     string   `json:"file,omitempty"`     // its bbolt file
	Postgres string   `json:"postgres,omitempty"` // instead of a file
	Schema   string   `json:"schema,omitempty"`
	Producer string   `json:"producer,omitempty"` // the producer's URL
	Consumer string   `json:"consumer,omitempty"` // the URL of its webhooks
	Secrets  []secret `json:"secrets,omitempty"`
	Part     string   `json:"part,omitempty"` // the client's work
}

// roles are the processes of this program. On bbolt the producer is the relay too.
var roles = map[string]func(context.Context, role) error{
	"client":   act,
	"producer": produce,
	"relay":    relay,
	"consumer": consume,
}

// play runs a role until it is done or killed.
func play(r role) error {
	run, ok := roles[r.Name]
	if !ok {
		return fmt.Errorf("there is no role %q", r.Name)
	}
	return run(context.Background(), r)
}
