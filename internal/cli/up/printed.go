package up

import (
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/cli/transcript"
	"github.com/muster-dev/muster/internal/manager"
)

// printed writes the output of a job's members, as muster logs does: first the output before they
// were last started again.
func (m *machine) printed(ctx context.Context, job *v1alpha1.TrainingJob, to io.Writer) error {
	set, err := kubernetes.NewForConfig(m.plane.ManagerConfig())
	if err != nil {
		return fmt.Errorf("making a client for logs: %w", err)
	}
	scheme, err := manager.Scheme()
	if err != nil {
		return err
	}
	reader, err := client.New(m.plane.ManagerConfig(), client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("making a client for logs: %w", err)
	}
	pods, err := member.Pods(ctx, reader, job.Namespace, job.Name)
	if err != nil {
		return err
	}
	for _, previous := range []bool{true, false} {
		replay := transcript.Replay{
			Source: transcript.Server{Set: set}, Archive: transcript.ArchiveOf(string(m.home), job),
			Printer: transcript.NewPrinter(to, terminal.Style{}, member.Of(job), false), Job: job.Name, Pods: pods, Tail: -1, Previous: previous,
		}
		if _, err := replay.Run(ctx); err != nil {
			return err
		}
	}
	return nil
}
