package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/redo-go/redo/cmd/redo/internal/form"
	"github.com/redo-go/redo/conformance"
)

// outputs holds the flags for the report's formats and files.
type outputs struct {
	format  string
	files   []string
	verbose bool
}

func (o *outputs) flags(f *pflag.FlagSet) {
	f.StringVar(&o.format, "format", "text", "print in this `form`: "+strings.Join(form.Names(), ", "))
	f.StringArrayVar(&o.files, "output", nil,
		"write the report into this `file` too, in the form of its extension (repeatable)")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "list every case in text")
}

// files holds the output files. They are opened before the run, so that a wrong path does not lose the run's
// results.
type files struct {
	standard form.Writer
	open     []output
}

type output struct {
	file *os.File
	form form.Writer
}

func (o *outputs) open() (*files, error) {
	standard, err := form.Named(o.format)
	if err != nil {
		return nil, fmt.Errorf("--format: %w", err)
	}
	f := &files{standard: standard}
	writers := make([]form.Writer, len(o.files))
	for i, name := range o.files {
		if writers[i], err = form.ForFile(name); err != nil {
			return nil, fmt.Errorf("--output: %w", err)
		}
	}
	for i, name := range o.files {
		file, err := os.Create(name)
		if err != nil {
			f.close()
			return nil, fmt.Errorf("--output: %w", err)
		}
		f.open = append(f.open, output{file, writers[i]})
	}
	return f, nil
}

// write writes the reports into the files.
func (f *files) write(o form.Options, reports ...conformance.Report) error {
	o.Colors = false
	var wrong []error
	for _, out := range f.open {
		err := errors.Join(out.form(out.file, o, reports...), out.file.Close())
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", out.file.Name(), err))
		}
	}
	f.open = nil
	return errors.Join(wrong...)
}

// close closes the files that write did not close.
func (f *files) close() {
	for _, out := range f.open {
		_ = out.file.Close() // nothing was written to it
	}
	f.open = nil
}

// progress is one line on a terminal that shows how many cases the run has finished. Without a terminal it does
// nothing.
type progress struct {
	w     io.Writer
	done  int
	fails int
}

func newProgress(t terminal) *progress {
	if !t.live {
		return &progress{}
	}
	fmt.Fprint(t.err, "0 cases: connecting")
	return &progress{w: t.err}
}

// eraseLine moves the cursor to the start of the line and clears the line (ECMA-48 8.3.41).
const eraseLine = "\r\x1b[K"

func (p *progress) show(res conformance.Result) {
	if p.w == nil {
		return
	}
	p.done++
	if res.Verdict == conformance.Fail {
		p.fails++
	}
	fmt.Fprintf(p.w, "%s%d cases, %d failed: %s %s", eraseLine, p.done, p.fails, res.Slug, res.Verdict)
}

func (p *progress) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, eraseLine)
	}
}
