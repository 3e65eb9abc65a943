package main

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/internal/wire"
)

// again returns the command line that checks the same target in the same way. It leaves out the flags that select
// cases, that set the seed, and that write reports. The secrets of --header become shell variables. The result is empty
// if a URL holds a secret, or if the target was read from standard input.
func again(flags *pflag.FlagSet, target string) string {
	if target == "-" {
		return ""
	}
	for _, address := range []string{target, flags.Lookup("effects").Value.String()} {
		if u, err := url.Parse(address); err == nil {
			for name, values := range u.Query() {
				if wire.CredentialParameter(name, values[0]) {
					return ""
				}
			}
		}
	}
	words := []string{"redo check"}
	flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "run", "skip", "seed", "format", "output", "verbose", "fail-fast":
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			word := quoteArg(value)
			name, _, _ := strings.Cut(value, ":")
			if f.Name == "header" && !slices.Contains(plainHeaders, http.CanonicalHeaderKey(name)) {
				word = quoteArg(name+": ") + `"$` + conformance.ShellName(name) + `"`
			}
			if f.Value.Type() == "bool" {
				words = append(words, "--"+f.Name+"="+value)
				continue
			}
			words = append(words, "--"+f.Name, word)
		}
	})
	return strings.Join(append(words, quoteArg(target)), " ")
}
