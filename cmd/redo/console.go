package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/console"
)

// A consoling is the flags of console.
type consoling struct {
	resumption // how operations are resumed
	address    string
	author     string
	urlFile    string
}

func newConsole(t terminal) *cobra.Command {
	c := &consoling{resumption: resumption{ops: &ops{terminal: t}, pinned: true}}
	cmd := &cobra.Command{
		Use:   "console [flags] STORE",
		Short: "Show pending operations and stopped events in a browser on this machine, and act on them",
		Long: `console serves pages that show pending and unknown operations, dead letters and disabled destinations,
with their causes. An operator resumes, settles, redrives, enables and forgets there. Each act is logged with
its author.

` + storeHelp + `

The console shows the operations, the records and the inbox's letters that it finds there. In a boltstore
file and in Postgres it also shows the queues of an outbox and an inbox, under their default names.

Headers given with --header go to one host only: that of the first operation which is resumed.

Only browsers on this machine are served. To serve others, mount package console behind your own login.`,
		Example: `  redo console payments.redo
  redo console payments.redo --address 127.0.0.1:9000 --profile stripe --header "Authorization: Bearer $TOKEN"`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&c.address, "address", "127.0.0.1:8090", "listen on this loopback `address`; port 0 is any free one")
	f.StringVar(&c.author, "author", loginName(), "your `name`, which is kept with each finding")
	f.StringVar(&c.scope, "scope", "redo", scopeHelp)
	c.place.flags(f)
	f.StringVar(&c.urlFile, "url-file", "", "once it listens, write its URL into this `file`")
	f.BoolVar(&c.body, "body", false, "show payloads and the first bytes of responses too")
	c.requestFlags(cmd)
	return cmd
}

// loginName returns the name of the user of this process, or "local".
func loginName() string {
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return "local"
	}
	return u.Username
}

// run opens the store and serves the console until the context ends.
func (c *consoling) run(ctx context.Context, name string) error {
	if err := checkLoopback(c.address); err != nil {
		return err
	}
	if c.author == "" {
		return errors.New("--author must not be empty")
	}
	opts, err := c.options()
	if err != nil {
		return err
	}
	return c.open(ctx, name, opts, func(sources []console.Option) error {
		sources = append(sources, console.Author(c.author), console.Audit(c.log))
		if c.body {
			sources = append(sources, console.ShowBodies())
		}
		h, err := console.New(sources...)
		if err != nil {
			return err
		}
		return c.serve(ctx, h)
	})
}

// checkLoopback refuses an address that other machines may reach.
func checkLoopback(address string) error {
	host, err := hostOf("--address", address, "127.0.0.1:8090")
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(host)
	if host == "localhost" || err == nil && ip.Unmap().IsLoopback() {
		return nil
	}
	return fmt.Errorf("--address %q: it must be a loopback address, such as 127.0.0.1:8090; "+
		"to serve other machines, mount package console behind your own login", address)
}

// serve serves until the context ends. Requests that have begun then have five seconds to end.
func (c *consoling) serve(ctx context.Context, h http.Handler) error {
	l, err := net.Listen("tcp", c.address)
	if err != nil {
		return failed(err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	p := playing{urlFile: c.urlFile}
	if err := p.ready(c.terminal, "console", "http://"+l.Addr().String()); err != nil {
		return errors.Join(err, srv.Close())
	}
	select {
	case err := <-ended:
		return failed(err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if srv.Shutdown(grace) != nil {
		_ = srv.Close() // requests that did not end in time are cut
	}
	return nil
}

// log writes an act on one line.
func (c *consoling) log(_ context.Context, a console.Act) {
	result := "done"
	if a.Err != nil {
		result = a.Err.Error()
	}
	subject := a.Operation
	if a.Queue != "" {
		subject = fmt.Sprintf("%s %s %s", a.Queue, orDash(a.Event), orDash(a.Destination))
	}
	fmt.Fprintf(c.err, "%s %s by %s: %q: %s\n", time.Now().UTC().Format(time.RFC3339), a.Action, a.Author, subject,
		result)
}
