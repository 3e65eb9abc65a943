package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/conformance"
)

func newVersion(t terminal) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: `  redo version`,
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			version, revision := "(devel)", ""
			if info, ok := debug.ReadBuildInfo(); ok {
				if info.Main.Version != "" {
					version = info.Main.Version
				}
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						revision = " " + s.Value
					}
				}
			}
			fmt.Fprintf(t.out, "redo %s%s\n%s %s/%s\n%d cases, reports %s\n",
				version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH, len(conformance.Cases()),
				conformance.Schema)
			return nil
		},
	}
}
