package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/cmd/redo/internal/form"
	"github.com/redo-go/redo/conformance"
)

func newReport(t terminal) *cobra.Command {
	var out outputs
	var strict bool
	cmd := &cobra.Command{
		Use:   "report [flags] FILE...",
		Short: "Show reports that were kept as JSON, one or several side by side",
		Long: `report reads the output of redo check --output report.json (- is standard input) and writes it in
another form. Several reports become one matrix of cases and servers. Its exit code is 0 for all
reports, also those with failures.`,
		Example: `  redo report a.json
  redo report a.json b.json --output matrix.html
  redo report a.json --format junit`,
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			var reports []conformance.Report
			for _, name := range args {
				more, err := readReports(name, t.in)
				if err != nil {
					return err
				}
				reports = append(reports, more...)
			}
			files, err := out.open()
			if err != nil {
				return err
			}
			defer files.close()
			o := form.Options{Strict: strict, Colors: t.colors, Verbose: out.verbose, Command: "redo check TARGET"}
			if err := errors.Join(files.standard(t.out, o, reports...), files.write(o, reports...)); err != nil {
				return failed(fmt.Errorf("the report could not be written: %w", err))
			}
			return nil
		},
	}
	out.flags(cmd.Flags())
	complete(cmd, "format", form.Names)
	cmd.Flags().BoolVar(&strict, "strict", false, "rules of all levels count, not only those that are a MUST")
	return cmd
}

// readReports reads a file that holds one report or an array of reports.
func readReports(name string, stdin io.Reader) ([]conformance.Report, error) {
	data, err := readInput(name, stdin)
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	var reports []conformance.Report
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		err = json.Unmarshal(data, &reports)
	} else {
		reports = make([]conformance.Report, 1)
		err = json.Unmarshal(data, &reports[0])
	}
	if err == nil && len(reports) == 0 {
		err = errors.New("there is no report in it")
	}
	for _, r := range reports {
		if err == nil && r.Schema != conformance.Schema {
			err = fmt.Errorf("its schema is %q, this program reads %q", r.Schema, conformance.Schema)
		}
		for _, res := range r.Results {
			if err == nil && slices.Contains(res.Exchanges, nil) {
				err = fmt.Errorf("an exchange of %q is null", res.Slug)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no report of redo check: %w", name, err)
	}
	return reports, nil
}
