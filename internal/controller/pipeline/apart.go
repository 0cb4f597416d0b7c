package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
	"github.com/muster-dev/muster/internal/pipeline"
)

// Images says what images are that programs of stages run in.
type Images interface {
	// Check says why an image cannot be run here, whatever is in it.
	Check(name string) error
	// Ensure has an image be where it will be run, and says what is in it. It does
	// not block for long: asking again helps where nothing is known yet. What was found
	// out before since does not count: a name may mean something else by then.
	Ensure(name string, since time.Time) ImageState
}

// ImageState is what is known of an image.
type ImageState struct {
	// Digest names what is in it; empty: that is not known yet.
	Digest string
	// Exact is a name by which just that is run; empty: what the image's name means where it
	// is run is what was looked at, or nobody has looked.
	Exact string
	// Host says that it stands for the machine's own files, and Path for the
	// environment there, if any.
	Host bool
	Path string
	// Failed says that asking again is of no use; Message says why, or what is
	// waited for.
	Failed  bool
	Message string
}

// Where a pod of workers that does not share the foreman's folder has what, below
// v1alpha1.PodRoot.
const (
	postDir    = v1alpha1.PodRoot + "/foreman"
	programDir = v1alpha1.PodRoot + "/bin"
	scratchDir = v1alpha1.PodRoot + "/datums"
	// datumDir is where members of a training stage find the one datum.
	datumDir = v1alpha1.PodRoot + "/datum"
	// workerFile is the program of workers in a post of v1alpha1.StageDriver.
	workerFile = postDir + "/muster-worker"
)

// carries says that files of every datum go between the foreman and programs through workers, and members
// of training and Spark have folders of their own.
func (m *Machine) carries() bool { return m.Elsewhere || m.Shared }

// seen is a path below v1alpha1.PodRoot as the words and variables of a member name it. On a machine that
// users share, a member need not be in an image, and in the plain tier nothing is mounted.
func (m *Machine) seen(at string) string {
	if !m.Shared {
		return at
	}
	return "$(" + v1alpha1.EnvRoot + ")" + strings.TrimPrefix(at, v1alpha1.PodRoot)
}

// where says for a message where files are carried.
func (m *Machine) where() string {
	if m.Shared {
		return "where users share one Muster"
	}
	return "on a cluster"
}

// imageOf is the image that a stage's programs run in; empty: none.
func (m *Machine) imageOf(stage *pipeline.Stage) string {
	if env := environmentOf(stage); env != nil && env.Image != "" {
		return env.Image
	}
	return m.DefaultImage
}

// cannot says in words why a stage cannot run in what it names; empty: it can.
func (m *Machine) cannot(stage *pipeline.Stage) string {
	image, packages := m.imageOf(stage), packaged(environmentOf(stage))
	switch {
	case m.carries() && stage.Spec.Training != nil && wordless(stage.Spec.Training) != "":
		return "training: role " + wordless(stage.Spec.Training) + " names no program: " + m.where() + " it is started by one of Muster's, which does not know the image's own: give command or script"
	case m.Elsewhere && image == "":
		return "environment.image: it names none, and this cluster has none for such stages: name one, or have one set for all (muster serve --default-image IMAGE)"
	case m.rules().Off && stage.Spec.Output != nil && stage.Spec.Output.Egress != "":
		return "output.egress: this installation copies nothing elsewhere (pipelines.egress.enabled): leave it out, and use muster data get"
	case m.Elsewhere && packages:
		return m.cannotBuild(stage)
	case image == "":
		return ""
	case m.Images == nil:
		return "environment.image: nothing runs images here: give environment.requirements or environment.path"
	}
	if err := m.Images.Check(image); err != nil {
		return "environment.image: " + err.Error() + ". Or give environment.requirements or environment.path in its place"
	}
	if packages {
		return m.cannotBuild(stage)
	}
	return ""
}

// inImage is what a stage's image means: what counts of it, and whether its
// programs see their own files alone. One that stands for the machine's is as if
// that were named.
func (c *Runs) inImage(ctx context.Context, run *v1alpha1.PipelineRun, stage *pipeline.Stage, name string) (state ImageState, print pipeline.Fingerprint, err error) {
	state, err = c.found(ctx, run, stage, name)
	switch {
	case err != nil:
		return state, print, err
	case state.Failed:
		return state, print, &unfit{"environment.image: " + state.Message}
	case state.Host:
		return state, print, nil
	case state.Digest == "":
		return state, print, &notYet{message: "environment.image: " + state.Message}
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	return state, pipeline.Fingerprint{
		ID: "image " + state.Digest + " " + platform, Parts: map[string]string{"image": state.Digest, "platform": platform},
	}, nil
}

// apart has the workers of a job run where they see nothing of the machine but
// what is shown to them here: their program, the foreman's post for their work, and
// a folder of their own.
func (m *Machine) apart(job *v1alpha1.TrainingJob, work, tag string, gpus float64) {
	role := &job.Spec.Roles[0]
	program := path.Join(programDir, filepath.Base(m.Worker))
	if m.carries() {
		showPost(role, work, tag)
		program = m.seen(workerFile)
	} else {
		show(role, "bin", programDir, true, hostFolder(filepath.Dir(m.Worker)))
		show(role, "foreman", postDir, true, hostFolder(m.Foreman.Post(work)))
	}
	if !m.Elsewhere {
		// What was looked up is what is run.
		into(role).ImagePullPolicy = corev1.PullIfNotPresent
	}
	role.Command = []string{program, "--post", m.seen(postDir), "--work", work, "--scratch", m.seen(scratchDir), "--gpus", strconv.FormatFloat(gpus, 'f', -1, 64)}
	var most *resource.Quantity
	if !m.Scratch.IsZero() {
		limit := m.Scratch.DeepCopy()
		most = &limit
	}
	show(role, "datums", scratchDir, false, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: most}})
}

// showPost has the members of a role see the agent's volume by which they reach the
// foreman.
func showPost(role *v1alpha1.Role, work, job string) {
	readOnly, attributes := true, map[string]string{"work": work}
	if job != "" {
		attributes[shift.JobAttribute] = job
	}
	show(role, "foreman", postDir, true, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
		Driver: v1alpha1.StageDriver, ReadOnly: &readOnly, VolumeAttributes: attributes,
	}})
}

// into is the first container of the pods of a role, which is the member's.
func into(role *v1alpha1.Role) *corev1.Container {
	if role.Template == nil {
		role.Template = &corev1.PodTemplateSpec{}
	}
	if len(role.Template.Spec.Containers) == 0 {
		role.Template.Spec.Containers = []corev1.Container{{}}
	}
	return &role.Template.Spec.Containers[0]
}

// show has the members of a role see a volume at a path.
func show(role *v1alpha1.Role, name, at string, readOnly bool, from corev1.VolumeSource) {
	main := into(role)
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: at, ReadOnly: readOnly})
	role.Template.Spec.Volumes = append(role.Template.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: from})
}

func hostFolder(path string) corev1.VolumeSource {
	kind := corev1.HostPathDirectory
	return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}
}

// shared has the members of a stage of training or Spark in images see the folder of its
// datum at datumDir, whoever they run as, with these rights.
func shared(job *v1alpha1.TrainingJob, datum string, rights os.FileMode) error {
	// Only the owner can open the folder without a mount of it. Members of an earlier job may
	// have replaced everything in the folder.
	folder, err := os.OpenRoot(datum)
	if err != nil {
		return fmt.Errorf("showing the datum's folder to a job: %w", err)
	}
	defer func() { _ = folder.Close() }()
	out, err := osfile.OpenFolder(folder, shift.OutFolder)
	if err != nil {
		return fmt.Errorf("showing the datum's folder to a job: %w", err)
	}
	defer func() { _ = out.Close() }()
	if err := errors.Join(folder.Chmod(".", rights), out.Chmod(".", 0o777)); err != nil {
		return fmt.Errorf("showing the datum's folder to a job: %w", err)
	}
	for i := range job.Spec.Roles {
		show(&job.Spec.Roles[i], "datum", datumDir, false, hostFolder(datum))
	}
	return nil
}
