package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/profile"
	"github.com/redo-go/redo/taxonomy"
)

// resumption holds the flags of ops resume.
type resumption struct {
	*ops
	yes, all, body bool
	headers        []string
	profile        string
	pinned         bool // the headers go to one host only, the first
	unread         int  // operations of --all whose request is unreadable
}

// clientProfiles maps each client profile's name to the profile.
var clientProfiles = func() map[string]redo.Profile {
	byName := map[string]redo.Profile{}
	for _, p := range []redo.Profile{
		redo.RedoProfile(), profile.ACP, profile.AdCP, profile.Adyen, profile.AWS, profile.Azure, profile.CheckoutCom,
		profile.EchoPro, profile.Formance, profile.IETF, profile.Iceberg, profile.Mollie, profile.PayPal,
		profile.Shopify, profile.Square, profile.Stripe, profile.Twilio, profile.UCP,
	} {
		byName[p.Name] = p
	}
	return byName
}()

func (o *ops) resume() *cobra.Command {
	r := &resumption{ops: o}
	cmd := &cobra.Command{
		Use:   "resume [flags] STORE NAME...",
		Short: "Send pending operations again, under their own keys",
		Long: `resume sends the stored request of each operation again, under the key that it was begun with, and
retries it as the client does. Each needs a confirmation. Credentials are not stored: give them with
--header. They are those of one API, so that with --all all requests must go to one host. An operation
without a final response stays pending; the exit code is then 1.`,
		Example: `  redo ops resume payments.redo refund:ch_9ab:1000 --header "Authorization: Bearer $TOKEN"
  redo ops resume payments.redo --all --yes`,
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if r.all == (len(args) > 1) {
				return errors.New("name the operations to resume, or say --all, not both")
			}
			opts, err := r.options()
			if err != nil {
				return err
			}
			return o.with(c.Context(), args[0], opts, func(_ recordStore, client *redo.Client) error {
				return r.run(c.Context(), client, args[1:])
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&r.all, "all", false, "resume all that is pending")
	f.BoolVar(&r.yes, "yes", false, "do not ask")
	f.BoolVar(&r.body, "body", false, "show the responses' bodies")
	r.requestFlags(cmd)
	return cmd
}

// requestFlags are the flags of the requests that are sent.
func (r *resumption) requestFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&r.headers, "header", nil, "send the header `'Name: value'` too, such as credentials (repeatable)")
	f.StringVar(&r.profile, "profile", "redo", "the API's `profile`: redo, ietf, stripe, paypal …")
	complete(cmd, "profile", func() []string { return slices.Sorted(maps.Keys(clientProfiles)) })
}

func (r *resumption) options() ([]redo.Option, error) {
	headers, err := parseHeaders(r.headers)
	if err != nil {
		return nil, err
	}
	p, ok := clientProfiles[r.profile]
	if !ok {
		names := slices.Sorted(maps.Keys(clientProfiles))
		return nil, fmt.Errorf("--profile: there is no profile %q, there are %s", r.profile, strings.Join(names, ", "))
	}
	opts := []redo.Option{redo.WithProfile(p)}
	var first atomic.Pointer[string]
	if len(headers) > 0 { // without headers, a request that carried credentials is refused before it is sent
		opts = append(opts, redo.WithCredentials(func(req *http.Request) error {
			host := req.URL.Host
			if r.pinned && !first.CompareAndSwap(nil, &host) && *first.Load() != host {
				return fmt.Errorf("--header was sent to %s, and does not go to %s: start another console for that host",
					*first.Load(), host)
			}
			for name, value := range headers {
				req.Header.Set(name, value)
			}
			return nil
		}))
	}
	return opts, nil
}

// run resumes the operations, oldest first. After a failure it still tries the others.
func (r *resumption) run(ctx context.Context, client *redo.Client, names []string) error {
	chosen, err := r.choose(ctx, client, names)
	if err != nil {
		return failed(err)
	}
	if err := r.oneHost(chosen); err != nil {
		return failed(err)
	}
	ask := newAsker(r.terminal)
	left := 0
	for _, op := range chosen {
		fmt.Fprintf(r.err, "%s: %s %s, key %s, begun %v ago\n", op.Name, op.Method, wire.ShownURL(op.URL), op.Key,
			seconds(op.Age.Seconds()))
		if op.Resumable && !r.yes && !ask.yes(ctx, "Send it again?") {
			if ctx.Err() != nil {
				return failed(errors.New("interrupted: the other operations stay pending"))
			}
			fmt.Fprintf(r.out, "%s: not sent\n", op.Name)
			left++
			continue
		}
		if !r.one(ctx, client, op) {
			left++
		}
	}
	if left += r.unread; left > 0 {
		return failed(fmt.Errorf("%d of %d operations did not succeed", left, len(chosen)+r.unread))
	}
	return nil
}

// oneHost returns an error if the headers, which may be credentials, would be sent to hosts that nobody has named.
func (r *resumption) oneHost(chosen []redo.Operation) error {
	var hosts []string
	for _, op := range chosen {
		if u, err := url.Parse(op.URL); err == nil && op.Resumable && !slices.Contains(hosts, u.Host) {
			hosts = append(hosts, u.Host)
		}
	}
	if !r.all || len(r.headers) == 0 || len(hosts) < 2 {
		return nil
	}
	return fmt.Errorf("--header would be sent to each of %s: name the operations of one of them, and not --all",
		strings.Join(hosts, ", "))
}

// choose returns the operations with the given names, or all readable ones. It counts the unreadable ones.
func (r *resumption) choose(ctx context.Context, client *redo.Client, names []string) ([]redo.Operation, error) {
	var chosen []redo.Operation
	found := map[string]bool{}
	for op, err := range client.Pending(ctx) {
		wanted := r.all || slices.Contains(names, op.Name) || op.Key != "" && slices.Contains(names, op.Key)
		switch {
		case err != nil && (op.Name == "" || wanted && !r.all):
			return nil, err
		case err != nil && wanted:
			fmt.Fprintf(r.err, "%s: can't be resumed: %v\n", op.Name, err)
			r.unread++
		case wanted:
			found[op.Name], found[op.Key] = true, true
			chosen = append(chosen, op)
		}
	}
	for _, name := range names {
		if !found[name] {
			return nil, fmt.Errorf("nothing pending has the name or the key %q", name)
		}
	}
	return chosen, nil
}

// one resumes an operation and prints the result.
func (r *resumption) one(ctx context.Context, client *redo.Client, op redo.Operation) bool {
	resp, err := client.Resume(ctx, op)
	if err != nil {
		var e *redo.Error
		text := strings.TrimPrefix(err.Error(), "redo: ")
		if !errors.As(err, &e) {
			fmt.Fprintf(r.out, "%s: %s\n", op.Name, text)
			return false
		}
		text = strings.TrimPrefix(text, fmt.Sprintf("operation %q: ", op.Name))
		fmt.Fprintf(r.out, "%s: %s\n", op.Name, text)
		if hint := hintOf(e); hint != "" {
			fmt.Fprintf(r.out, "  %s\n", hint)
		}
		r.show(e.Response)
		return false
	}
	how := ""
	if redo.Replayed(resp) {
		how = ", replayed"
	}
	fmt.Fprintf(r.out, "%s: %s%s\n", op.Name, resp.Status, how)
	r.show(resp)
	return true
}

// hintOf returns the advice for an operation that was not resumed. The code's own hint is for a program.
func hintOf(e *redo.Error) string {
	switch {
	case e.Code == taxonomy.BodyNotReplayable:
		return "" // the error's text has the advice
	case e.Code.Transient() && !redo.SafeToRetry(e): // its final response is recorded
		return "it is not sent again: find out what happened, then see redo ops settle --help"
	}
	return e.Code.Hint()
}

// maxShown is the number of bytes of a response that show prints.
const maxShown = 64 << 10

// show prints the body if the flags ask for it, and closes the body.
func (r *resumption) show(resp *http.Response) {
	if resp == nil {
		return
	}
	if r.body {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxShown)) // a partial body is shown too
		fmt.Fprintf(r.out, "%s\n", body)
	}
	_ = resp.Body.Close() // the outcome is known by now
}

// asker prints questions on the terminal's standard error and reads replies from its input.
type asker struct {
	terminal
	replies *bufio.Reader
}

func newAsker(t terminal) asker { return asker{t, bufio.NewReader(t.in)} }

// yes puts a yes-or-no question. Only "y" and "yes" mean yes. The end of the input or of the context means no.
// After the context ends, a goroutine that still reads the input ends with the program.
func (a asker) yes(ctx context.Context, question string) bool {
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	reply := make(chan string, 1)
	go func() {
		line, _ := a.replies.ReadString('\n') // the text before the end of the input is the reply
		reply <- line
	}()
	select {
	case line := <-reply:
		if line == "" { // the input has ended, as in a job of cron
			fmt.Fprintln(a.err, "\nno reply: with --yes the command does not ask")
		}
		line = strings.ToLower(strings.TrimSpace(line))
		return line == "y" || line == "yes"
	case <-ctx.Done():
		fmt.Fprintln(a.err)
		return false
	}
}
