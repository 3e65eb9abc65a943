package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/cmd/redo/internal/script"
	"github.com/redo-go/redo/servertest"
)

// playing holds the flags of the commands that inject faults.
type playing struct {
	listen  string
	scripts []string
	lenient bool
	effects bool // the command counts them
	urlFile string
	faults  script.Language
}

func (p *playing) flags(c *cobra.Command, address string) {
	f := c.Flags()
	f.StringVar(&p.listen, "listen", address, "listen on this `address`; port 0 is any free one")
	f.StringArrayVar(&p.scripts, "script", nil,
		"faults by key, such as `'k1: reset-after-effect, 503, ok'`; @ and a file name reads them from there "+
			"(repeatable)")
	f.StringVar(&p.urlFile, "url-file", "", "once it listens, write its URL into this `file`")
	f.BoolVar(&p.lenient, "lenient", false, "let faults of the script be left over at the end")
}

const scriptHelp = `A script has a key and the faults of its requests, in the order of their arrival:

  k1: reset-after-effect, 503, ok

The key * is every other key, next is the next key that shows up, and - is requests without one.
Line breaks or semicolons separate scripts. The faults are:

%s

The program runs until it is interrupted. It then ends with status 1 if faults of the script were
not reached: these prove nothing about the client.`

// options checks the address and parses the scripts.
func (p *playing) options() ([]servertest.Option, error) {
	if _, err := hostOf("--listen", p.listen, "127.0.0.1:8080"); err != nil {
		return nil, err
	}
	texts := make([]string, len(p.scripts))
	for i, text := range p.scripts {
		texts[i] = text
		if name, ok := strings.CutPrefix(text, "@"); ok {
			data, err := os.ReadFile(name)
			if err != nil {
				return nil, fmt.Errorf("--script: %w", err)
			}
			texts[i] = strings.TrimPrefix(string(data), "\ufeff") // an editor's byte order mark is no part of a key
			if strings.TrimSpace(texts[i]) == "" {
				return nil, fmt.Errorf("--script: the file %q is empty", name)
			}
		}
	}
	return p.faults.Parse(texts...)
}

// ready prints the address that the server listens on.
func (p *playing) ready(t terminal, name, url string) error {
	fmt.Fprintf(t.err, "redo %s: %s\n", name, url)
	if p.urlFile == "" {
		return nil
	}
	if err := writeWhole("--url-file", p.urlFile, []byte(url+"\n")); err != nil {
		return failed(err)
	}
	return nil
}

// until serves until the context ends. It then reports the scripted faults that no request reached.
func (p *playing) until(ctx context.Context, t terminal, srv *servertest.Server) error {
	<-ctx.Done()
	srv.Close()
	fmt.Fprintf(t.err, "%d requests", len(srv.Requests()))
	if p.effects {
		fmt.Fprintf(t.err, ", %d effects", srv.Ledger().Total())
	}
	fmt.Fprintln(t.err)
	missing := srv.Unplayed()
	if p.lenient || len(missing) == 0 {
		return nil
	}
	for _, m := range missing {
		fmt.Fprintln(t.err, m)
	}
	return failed(fmt.Errorf("%d of the script's faults did not come to pass; --lenient lets them", len(missing)))
}
