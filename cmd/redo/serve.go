package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/cmd/redo/internal/reference"
	"github.com/redo-go/redo/cmd/redo/internal/targetfile"
	"github.com/redo-go/redo/store/boltstore"
)

func newServe(t terminal) *cobra.Command {
	p := playing{effects: true}
	var cfg reference.Config
	var file, target string
	var printTarget bool
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Run a server that keeps the rules, with scripted faults, for clients to be tried against",
		Long: `serve runs redo's middleware in front of a small shop: POST /orders and /refunds with a JSON object
whose "amount" is positive make one effect each. A test in any language reads the number of effects
from GET /effects?key=KEY, and the number of requests from GET /requests?key=KEY. X-Slow: 400ms makes
an order slow. X-Fault: 500, 429 or crash makes it fail. The counts are kept in memory.

` + fmt.Sprintf(scriptHelp, p.faults.Help()),
		Example: `  redo serve --script 'k1: reset-after-effect, 503, ok'
  redo serve --script '*: reset-after-effect' --script '"k:2": delay-in-handler(2s)'
  redo serve --listen 127.0.0.1:9000 --store records.redo --write-target served.yaml
  redo serve --print-target > target.yaml`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if cfg.Bare {
				p.faults.NoStore = "a server with --bare has no store that can fail"
			}
			if cfg.Script, err = p.options(); err != nil {
				return err
			}
			if cfg.Wait < 0 {
				return fmt.Errorf("--wait is %v, it must not be negative", cfg.Wait)
			}
			if printTarget {
				return printTargetOf(t, p.listen, cfg)
			}
			if err := checkOwn(target); err != nil {
				return err
			}
			if file != "" {
				st, err := boltstore.Open(file)
				if err != nil {
					return failed(err)
				}
				defer func() { err = errors.Join(err, st.Close()) }()
				cfg.Store = st
			}
			l, err := net.Listen("tcp", p.listen)
			if err != nil {
				return failed(err)
			}
			srv, err := reference.Serve(l, cfg, logTo(t))
			if err != nil {
				return err
			}
			defer srv.Close()
			if target != "" {
				text, err := targetfile.Format(reference.Target(srv.URL, cfg))
				if err == nil {
					err = writeWhole("--write-target", target, append([]byte(ownTarget), text...))
				}
				if err != nil {
					return failed(err)
				}
			}
			if err := p.ready(t, "serve", srv.URL); err != nil {
				return err
			}
			return p.until(c.Context(), t, srv)
		},
	}
	p.flags(cmd, "127.0.0.1:8080")
	f := cmd.Flags()
	f.StringVar(&file, "store", "", "keep records in this `file` (default in memory)")
	f.StringVar(&cfg.Profile, "profile", "redo", "respond as the `profile` redo, ietf or stripe")
	f.BoolVar(&cfg.KeyOptional, "key-optional", false, "run requests without a key")
	f.DurationVar(&cfg.Wait, "wait", 0,
		"let a duplicate wait for the first request, at most so long (default refuse it)")
	f.BoolVar(&cfg.Bare, "bare", false, "forget keys, so that every request makes an effect, which redo check finds")
	f.StringVar(&target, "write-target", "",
		"once the server listens, write the target `file` that describes it for redo check; a file of another author is "+
			"not overwritten")
	f.BoolVar(&printTarget, "print-target", false, "print that target file, and serve nothing")
	complete(cmd, "profile", reference.Profiles)
	return cmd
}

func logTo(t terminal) func(string, ...any) {
	return func(format string, args ...any) { fmt.Fprintf(t.err, format+"\n", args...) }
}

// printTargetOf prints the target file of a server that listens on an address of this machine.
func printTargetOf(t terminal, address string, cfg reference.Config) error {
	if strings.HasPrefix(address, ":") {
		address = "localhost" + address // a URL needs a host
	}
	text, err := targetfile.Format(reference.Target("http://"+address, cfg))
	if err != nil {
		return failed(err)
	}
	_, err = t.out.Write(text)
	return err
}

// ownTarget is the first line of the target files that serve writes.
const ownTarget = "# redo serve --write-target writes this file anew each time it starts. To keep changes, rename it.\n"

// checkOwn returns an error if the file exists and serve did not write it. An empty name means no file.
func checkOwn(name string) error {
	if name == "" {
		return nil
	}
	text, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--write-target: %w", err)
	case !strings.HasPrefix(string(text), ownTarget):
		return fmt.Errorf("--write-target %s: the file exists, and redo serve did not write it", name)
	}
	return nil
}

// writeWhole writes the file of a flag in one step, so that a program that waits for the file never reads half of it.
func writeWhole(flag, name string, text []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".redo-*")
	if err != nil {
		return fmt.Errorf("%s %s: %w", flag, name, err)
	}
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", flag, name, errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}
