package main

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redo-go/redo/cmd/redo/internal/nearest"
	"github.com/redo-go/redo/conformance"
)

// choice holds the flags that select cases.
type choice struct{ run, skip []string }

func (c *choice) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&c.run, "run", nil,
		"run only these `cases`: slugs, groups or globs such as 'replay-*'; the cases that they depend on run too")
	f.StringSliceVar(&c.skip, "skip", nil, "skip these `cases`")
}

// options returns the choice as options of package conformance. A pattern that matches no case is an error:
// otherwise a rule that was meant to be checked would go unchecked.
func (c choice) options() ([]conformance.Option, error) {
	only, err := match("--run", c.run)
	if err != nil {
		return nil, err
	}
	except, err := match("--skip", c.skip)
	if err != nil {
		return nil, err
	}
	return []conformance.Option{conformance.Only(only...), conformance.Except(except...)}, nil
}

// match returns the slugs that match the patterns.
func match(flag string, patterns []string) ([]string, error) {
	var slugs []string
	for _, p := range patterns {
		found := false
		for _, c := range conformance.Cases() {
			slug, err := path.Match(p, c.Slug)
			if err != nil {
				return nil, fmt.Errorf("%s %q: the pattern is malformed", flag, p)
			}
			group, _ := path.Match(p, c.Group())
			if slug || group {
				found = true
				slugs = append(slugs, c.Slug)
			}
		}
		if !found {
			return nil, noCase(flag, p)
		}
	}
	return slugs, nil
}

func noCase(flag, name string) error {
	var names []string
	for _, c := range conformance.Cases() {
		names = append(names, c.Slug, c.Group())
	}
	return fmt.Errorf("%s %q: there is no such case%s; redo check --list names them all", flag, name,
		nearest.DidYouMean(name, names))
}

// chosen reports whether the patterns select the case.
func (c choice) chosen(slug string) bool {
	only, _ := match("", c.run) // options has already checked the patterns
	except, _ := match("", c.skip)
	return (len(c.run) == 0 || slices.Contains(only, slug)) && !slices.Contains(except, slug)
}

// listCases lists the cases that the flags select.
func listCases(w io.Writer, ch choice, format string) error {
	cases := slices.DeleteFunc(conformance.Cases(), func(c conformance.Case) bool { return !ch.chosen(c.Slug) })
	switch {
	case len(cases) == 0:
		return errors.New("no case is selected")
	case format == "json":
		return writeJSON(w, cases)
	case format != "text":
		return fmt.Errorf("--list writes text or json, not %s", format)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range cases {
		needs := "-"
		if len(c.Needs) > 0 {
			needs = joinNeeds(c.Needs)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.Slug, c.Level, needs, c.Rule)
	}
	return table.Flush()
}

// explainCase prints everything about one case.
func explainCase(w io.Writer, slug string) error {
	cases := conformance.Cases()
	i := slices.IndexFunc(cases, func(c conformance.Case) bool { return c.Slug == slug })
	if i < 0 {
		if group, _ := match("", []string{slug}); len(group) > 0 {
			return fmt.Errorf("--explain %q: it explains one case, and these are %s", slug, strings.Join(group, ", "))
		}
		return noCase("--explain", slug)
	}
	c := cases[i]
	fmt.Fprintf(w, "%s (%s)\n\n", c.Slug, c.Level)
	fmt.Fprintf(w, "  rule      %s\n  why       %s\n  sequence  %s\n", c.Rule, c.Why, c.Sequence)
	if len(c.Needs) > 0 {
		fmt.Fprintf(w, "  needs     %s\n", joinNeeds(c.Needs))
	}
	for _, s := range c.Sources {
		level := string(s.Level)
		if level == "" {
			level = "describes it"
		}
		fmt.Fprintf(w, "  source    %s: %s\n", s.Ref, level)
	}
	return nil
}

func joinNeeds(needs []conformance.Need) string {
	texts := make([]string, len(needs))
	for i, n := range needs {
		texts[i] = string(n)
	}
	return strings.Join(texts, ",")
}

// caseNames returns the completions for slugs and groups.
func caseNames() []string {
	var names []string
	for _, c := range conformance.Cases() {
		if g := c.Group(); !slices.Contains(names, g) {
			names = append(names, g)
		}
		names = append(names, c.Slug+"\t"+c.Rule)
	}
	return names
}

// complete registers the completions of a flag. The ignored error would report an unknown flag.
func complete(cmd *cobra.Command, flag string, names func() []string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		return slices.DeleteFunc(names(), func(n string) bool { return !strings.HasPrefix(n, typed) }),
			cobra.ShellCompDirectiveNoFileComp
	})
}
