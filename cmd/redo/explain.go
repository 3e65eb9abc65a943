package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/taxonomy"
)

// meaning holds the taxonomy's description of a code.
type meaning struct {
	Code      taxonomy.Code `json:"code"`
	Family    taxonomy.Code `json:"family"`
	Transient bool          `json:"transient"`
	Hint      string        `json:"hint"`
}

func meaningOf(c taxonomy.Code) meaning {
	return meaning{c, c.Family(), c.Transient(), c.Hint()}
}

func newExplain(t terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [CODE|STATUS]",
		Short: "Explain an error code or an HTTP status",
		Long: `explain prints the meaning of a code of redo's taxonomy, whether the same request may be sent again
under its key, and the next step. A number is an HTTP status, as it is read when the response has nothing
more. Without an argument it lists all codes.`,
		Example: `  redo explain CONFLICT.idempotency.in_flight
  redo explain 503
  redo explain --json`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			var all []meaning
			if len(args) == 0 {
				for _, c := range taxonomy.Codes() {
					all = append(all, meaningOf(c))
				}
				if asJSON {
					return writeJSON(t.out, all)
				}
				return writeMeanings(t.out, all)
			}
			m, err := lookUp(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(t.out, m)
			}
			again := "no, it would not help"
			switch {
			case m.Transient:
				again = "yes, under the same key"
			case m.Code.In(taxonomy.Caller):
				again = "by the caller, under the same key"
			}
			fmt.Fprintf(t.out, "%s\n  family  %s\n  retry   %s\n  hint    %s\n", m.Code, m.Family, again, m.Hint)
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, c := range taxonomy.Codes() {
				names = append(names, string(c))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// lookUp finds a code by its typed name, or the code that an HTTP status maps to.
func lookUp(typed string) (meaning, error) {
	if status, err := strconv.Atoi(typed); err == nil {
		if status < 100 || status > 599 {
			return meaning{}, fmt.Errorf("%d is no HTTP status: they are from 100 to 599", status)
		}
		if status < 400 {
			name := strings.TrimSpace(fmt.Sprint(status, " ", http.StatusText(status)))
			return meaning{}, fmt.Errorf("%s is no error: it has no code", name)
		}
		v := taxonomy.Classify(taxonomy.Answer{Sent: true, Status: status})
		m := meaningOf(v.Code)
		m.Transient = v.Retry()
		return m, nil
	}
	c := taxonomy.Code(typed)
	codes := taxonomy.Codes()
	if i := slices.IndexFunc(codes, func(k taxonomy.Code) bool { return strings.EqualFold(string(k), typed) }); i >= 0 {
		c = codes[i]
	}
	if c.Hint() == "" {
		return meaning{}, fmt.Errorf("there is no code %q, nor a family of it; redo explain lists them", typed)
	}
	return meaningOf(c), nil
}

func writeMeanings(w io.Writer, all []meaning) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, m := range all {
		again := "-"
		if m.Transient {
			again = "retry"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", m.Code, again, m.Hint)
	}
	return table.Flush()
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
