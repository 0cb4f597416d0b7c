// Package spark is the hidden command `muster spark`: what the members of the job
// run that is a Spark stage of a pipeline. Nobody types it.
package spark

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/spark"
)

// New returns the command. Its words are read by package spark, since the same program
// runs where there is no muster, out of muster-worker.
func New(f *connection.Factory) *cobra.Command {
	return &cobra.Command{
		Use:    spark.Verb + " driver|executor --datum FOLDER",
		Short:  "Be a member of a Spark application (what jobs of Spark stages run)",
		Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			scratch := filepath.Join(os.Getenv(v1alpha1.EnvRoot), strings.TrimPrefix(v1alpha1.SparkPath, v1alpha1.PodRoot))
			if code := spark.Main(cmd.Context(), args, scratch, terminal.Bare(f.Streams.Out), terminal.Bare(f.Streams.Err)); code != 0 {
				return exit.With(exit.Code(code), nil)
			}
			return nil
		},
	}
}
