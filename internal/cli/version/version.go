// Package version is the command `muster version`, and what this program's
// version is.
package version

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/output"
)

// release is set when a release is built:
// -ldflags "-X github.com/muster-dev/muster/internal/cli/version.release=v1.2.3".
var release = ""

// Report is what `muster version -o json` prints.
type Report struct {
	// Version is the release, or the commit where it is none.
	Version string `json:"version"`
	// Commit is the revision that it was built from, "+" where changed.
	Commit string `json:"commit,omitempty"`
	// Go and Platform are the compiler's version and what it compiled for.
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Kubernetes is the version of the API server, if one runs.
	Kubernetes string `json:"kubernetes,omitempty"`
}

// Client returns the report on this program alone.
func Client() Report {
	report := Report{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range build.Settings {
			switch {
			case setting.Key == "vcs.revision":
				report.Commit = setting.Value[:min(12, len(setting.Value))]
			case setting.Key == "vcs.modified" && setting.Value == "true" && report.Commit != "":
				report.Commit += "+"
			}
		}
	}
	if report.Version == "" {
		report.Version = "dev"
		if report.Commit != "" {
			report.Version += "-" + report.Commit
		}
	}
	return report
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	var format *output.Format
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of muster, and of the API server if one runs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.Validate(output.JSON, output.YAML); err != nil {
				return err
			}
			return run(cmd.Context(), f, *format)
		},
	}
	format = output.Flag(cmd, output.JSON, output.YAML)
	return cmd
}

func run(ctx context.Context, f *connection.Factory, format output.Format) error {
	report := Client()
	report.Kubernetes = server(ctx, f)
	if format != output.Human {
		return output.Print(f.Streams.Out, format, report)
	}
	_, err := fmt.Fprintf(f.Streams.Out, "muster %s (%s, %s)\n", report.Version, report.Go, report.Platform)
	if err == nil && report.Kubernetes != "" {
		_, err = fmt.Fprintf(f.Streams.Out, "kubernetes %s\n", report.Kubernetes)
	}
	return err
}

// server returns the API server's version; empty where none answers, which is
// no error here.
func server(ctx context.Context, f *connection.Factory) string {
	set, err := f.Clientset()
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	found, err := set.Discovery().ServerVersionWithContext(ctx)
	if err != nil {
		return ""
	}
	return found.GitVersion
}
