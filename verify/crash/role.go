package main

import (
	"context"
	"fmt"
	"time"
)

// A role is the part of a process. It is sent to its standard input.
type role struct {
	Name   string        `json:"name"` // of the seat, such as service0
	Part   string        `json:"part"` // client, gateway, service, relay or consumer
	Mode   string        `json:"mode"` // of the service
	Defect string        `json:"defect,omitempty"`
	Dir    string        `json:"dir"`             // of the round's files
	Work   time.Duration `json:"work"`            // the longest time before an effect, and after it
	Place  place         `json:"place"`           // of the stores
	Secret string        `json:"secret"`          // the gateways' key, and the one that signs webhooks
	Front  string        `json:"front,omitempty"` // the URL of the gateways
	Back   string        `json:"back,omitempty"`  // the URL of the services
	Events string        `json:"events,omitempty"`
}

// parts are the processes of a fleet.
var parts = map[string]func(context.Context, role) error{
	"client":   runClient,
	"gateway":  runGateway,
	"service":  runService,
	"relay":    runRelay,
	"consumer": runConsumer,
}

// play runs a part until the process is killed.
func play(r role) error {
	run, ok := parts[r.Part]
	if !ok {
		return fmt.Errorf("there is no part %q", r.Part)
	}
	return run(context.Background(), r)
}
