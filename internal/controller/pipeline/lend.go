package pipeline

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/parcel"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
	"github.com/muster-dev/muster/internal/pipeline/harvest"
)

const (
	// defaultGrace is how long members have to end that say nothing, in seconds: what
	// Kubernetes gives them.
	defaultGrace = 30
	// sending is how much longer their pods have, for what they wrote.
	sending = 30
)

// lend has each member of a job be started by Muster's program, which fetches the
// files of the datum, and sends what the member wrote. Duties are, by roles, what members
// are to one another (package worker). At mount, unless that is empty, the files appear by
// their names. It returns where members find them.
func (m *Machine) lend(job *v1alpha1.TrainingJob, work, mount string, duties map[string][]string) string {
	tag := rand.Text()
	for i := range job.Spec.Roles {
		role := &job.Spec.Roles[i]
		words := wordsOf(role)
		showPost(role, work, tag)
		show(role, "muster-datum", datumDir, false, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
		pod := &role.Template.Spec
		grace := int64(defaultGrace)
		if pod.TerminationGracePeriodSeconds != nil {
			grace = *pod.TerminationGracePeriodSeconds
		}
		longer := grace + sending
		pod.TerminationGracePeriodSeconds = &longer
		starts := []string{
			m.seen(workerFile), "member", "--post", m.seen(postDir), "--work", work, "--datum", m.seen(datumDir), "--grace", strconv.FormatInt(grace, 10) + "s",
		}
		if mount != "" {
			show(role, shownVolume, mount, false, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
			starts = append(starts, "--mount", mount)
		}
		role.Command = slices.Concat(starts, duties[role.Name], []string{"--"}, words)
		role.Script = ""
		pod.Containers[0].Command, pod.Containers[0].Args = nil, nil
	}
	return m.seen(datumDir)
}

// tagOf is what tells a job whose members a stage's files are lent to from those before
// it; empty: nothing does.
func tagOf(job *v1alpha1.TrainingJob) string {
	for i := range job.Spec.Roles {
		if job.Spec.Roles[i].Template == nil {
			continue
		}
		for _, v := range job.Spec.Roles[i].Template.Spec.Volumes {
			if v.CSI != nil && v.CSI.Driver == v1alpha1.StageDriver {
				return v.CSI.VolumeAttributes[shift.JobAttribute]
			}
		}
	}
	return ""
}

// wordsOf are the words that start a member, without the arguments that stay where
// they are.
func wordsOf(role *v1alpha1.Role) []string {
	switch {
	case len(role.Command) > 0:
		return role.Command
	case role.Script != "":
		return []string{"python", role.Script}
	case role.Template == nil || len(role.Template.Spec.Containers) == 0 || len(role.Template.Spec.Containers[0].Command) == 0:
		return nil
	}
	main := &role.Template.Spec.Containers[0]
	if len(role.Args) > 0 { // which are laid over the template's
		return main.Command
	}
	return slices.Concat(main.Command, main.Args)
}

// wordless names a role of which nothing says what its members run; empty: there is
// none.
func wordless(job *v1alpha1.TrainingJobSpec) string {
	for i := range job.Roles {
		role := &job.Roles[i]
		if len(wordsOf(role)) == 0 || strings.Contains(role.Script, "://") {
			return role.Name
		}
	}
	return ""
}

// owing are the members of a job that has succeeded from which something has to have
// come, since the job has waited for their success. Others may never have begun; of
// those that have, the foreman knows.
func owing(job *v1alpha1.TrainingJob) []string {
	var out []string
	for _, name := range awaited(job) {
		if strings.Contains(name, "/") {
			out = append(out, name)
			continue
		}
		for i := range job.Spec.Roles {
			role, n := &job.Spec.Roles[i], int32(1)
			if role.Replicas != nil {
				n = *role.Replicas
			}
			for index := range n {
				if role.Name == name {
					out = append(out, fmt.Sprintf("%s/%d", name, index))
				}
			}
		}
	}
	return out
}

// awaited are the roles, and single members as role/index, whose success a job is, as
// TrainingJobs say it: what it names, else the chief, else all but parameter servers
// and the evaluator, and where those are all there is, they.
func awaited(job *v1alpha1.TrainingJob) []string {
	if len(job.Spec.DoneWhen) > 0 {
		return job.Spec.DoneWhen
	}
	var working, all []string
	for i := range job.Spec.Roles {
		name := job.Spec.Roles[i].Name
		switch all = append(all, name); name {
		case "chief":
			return []string{name}
		case "ps", "evaluator":
		default:
			working = append(working, name)
		}
	}
	if len(working) == 0 {
		return all
	}
	return working
}

// final says that what members wrote cannot become an output, however often it is
// tried.
func final(err error) bool {
	_, clash := errors.AsType[*foreman.ClashError](err)
	return clash || errors.Is(err, foreman.ErrMissing) || errors.Is(err, syscall.ENAMETOOLONG)
}

// PartsDataset is the dataset, in each namespace, of what members of jobs of stages
// wrote: a branch for each stage that has not ended, a folder for each member.
const PartsDataset = "muster-parts"

// keeping has what members of the job of a stage wrote be in the store until the stage
// has ended, since whoever gives out its files may be another manager by then.
func (c *Runs) keeping(w *work, name string, spec *foreman.Spec) {
	if !c.deps.Machine.carries() {
		return
	}
	spec.Keep = func(ctx context.Context, member, folder string) error {
		if err := dataset.Ensure(ctx, c.client, w.namespace, w.run.Spec.Pipeline, PartsDataset); err != nil {
			return err
		}
		d, err := c.deps.Machine.dataset(ctx, c.live, w.namespace, PartsDataset)
		if err != nil {
			return err
		}
		return keepPart(ctx, d, name, member, folder)
	}
	spec.Kept = func(ctx context.Context, folder string) error {
		d, err := c.deps.Machine.dataset(ctx, c.live, w.namespace, PartsDataset)
		if err != nil {
			return err
		}
		view, err := d.At(ctx, name)
		if noParts(err) {
			return nil
		}
		if err == nil {
			_, err = view.Checkout(ctx, folder, data.CheckoutOptions{})
		}
		return err
	}
	spec.Forget = func(ctx context.Context) error { return c.forgetParts(ctx, w.namespace, name) }
}

// keepPart commits a folder to a branch, as what a member wrote.
func keepPart(ctx context.Context, d *data.Dataset, branch, member, folder string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := fits(member, root); err != nil {
		return err
	}
	session, err := d.Begin(ctx, branch, data.SessionOptions{})
	if err != nil {
		return err
	}
	err = session.AddTar(ctx, data.AddOptions{To: member, Replace: true}, func(to io.Writer) error {
		out := tar.NewWriter(to)
		if err := harvest.Folder(out, ".", root); err != nil {
			return err
		}
		return out.Close()
	})
	if err == nil {
		_, err = session.Commit(ctx, data.CommitOptions{Author: "muster", Message: "what " + member + " wrote", Orphan: true})
	}
	if err != nil {
		return errors.Join(err, session.Close(context.WithoutCancel(ctx)))
	}
	return nil
}

// noParts says that there is no such branch, or no dataset.
func noParts(err error) bool {
	_, missing := errors.AsType[*dataset.MissingError](err)
	return missing || errors.Is(err, fs.ErrNotExist) || apierrors.IsNotFound(err)
}

// fits refuses what a member wrote whose paths are too long below the member's name: no
// other try would change that.
func fits(member string, root *os.Root) error {
	return osfile.Walk(root, func(name string, _ *os.Root, _ fs.DirEntry) error {
		if err := tree.CheckPath(path.Join(member, name)); err != nil {
			return parcel.Refuse("%v: have the program write below shorter paths", err)
		}
		return nil
	})
}

// forgetParts removes what members of the job of a work wrote, if it is there.
func (c *Runs) forgetParts(ctx context.Context, namespace, name string) error {
	err := c.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: PartsDataset}, &v1alpha1.Dataset{})
	if apierrors.IsNotFound(err) {
		return nil // it is made before anything is written
	}
	if err != nil {
		return fmt.Errorf("reading dataset %s: %w", PartsDataset, err)
	}
	d, err := c.deps.Machine.dataset(ctx, c.live, namespace, PartsDataset)
	if err != nil {
		return err
	}
	if err := d.Remove(ctx, ref.Name{Kind: ref.Branch, Name: name}); err != nil && !noParts(err) {
		return fmt.Errorf("forgetting what members of %s wrote: %w", name, err)
	}
	return nil
}

// tidyParts forgets what members of the jobs of a run wrote that has ended.
func (c *Runs) tidyParts(ctx context.Context, run *v1alpha1.PipelineRun) error {
	var errs []error
	for i := range run.Spec.Stages {
		if stage := &run.Spec.Stages[i]; c.deps.Machine.carries() && (stage.Training != nil || stage.Spark != nil) {
			errs = append(errs, c.forgetParts(ctx, run.Namespace, workName(run, stage.Name)))
		}
	}
	return errors.Join(errs...)
}
