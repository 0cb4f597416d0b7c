package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/dataset/egress"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/internal/pipeline"
)

// notYet is why a stage waits: code or an environment that is not ready.
type notYet struct {
	message string
	// again is when asking again may help, where somebody has to do something first. 0:
	// soon, by itself.
	again time.Duration
}

// Error implements error.
func (e *notYet) Error() string { return e.message }

// unfit is what is wrong with a stage so that waiting is of no use.
type unfit struct{ message string }

// Error implements error.
func (e *unfit) Error() string { return e.message }

// resolved is what a stage's fields mean here and now.
type resolved struct {
	recipe *pipeline.Recipe
	// versions are those of what variables come from; nil: they come from nothing.
	versions map[string]string
	// terms are by what members compute that does not follow from the stage, which their
	// job notes: versions, and the image that was found. Nil: there is nothing of the kind.
	terms map[string]string
	// setting is what programs run in and with.
	setting
	// code is the snapshot's digest; empty: none.
	code string
	// java is the folder of the Java that a Spark stage runs on; empty: that of
	// PATH.
	java string
}

// resolve finds out what a stage's fields mean. The error is a [notYet] where
// asking again helps, and an [unfit] where it does not.
func (c *Runs) resolve(ctx context.Context, run *v1alpha1.PipelineRun, stage *pipeline.Stage) (*resolved, error) {
	var means pipeline.Resolved
	code, err := c.code(run, stage, &means.Code)
	if err != nil {
		return nil, err
	}
	setting, err := c.environment(ctx, run, stage)
	if err != nil {
		return nil, err
	}
	means.Environment = setting.print
	java := ""
	if stage.Spec.Spark != nil && !c.deps.Machine.Elsewhere && !setting.apart { // an image has its own
		if java, err = c.spark(ctx, run, stage, &means.Environment); err != nil {
			return nil, err
		}
	}
	if means.Versions, err = c.counted(ctx, run, stage); err != nil {
		return nil, err
	}
	recipe, err := pipeline.NewRecipe(stage, means)
	if err != nil {
		return nil, &unfit{err.Error()}
	}
	return &resolved{recipe: recipe, versions: means.Versions, terms: setting.terms(means.Versions), code: code, java: java, setting: setting}, nil
}

// code is the digest of the stage's snapshot.
func (c *Runs) code(run *v1alpha1.PipelineRun, stage *pipeline.Stage, print *pipeline.Fingerprint) (string, error) {
	code := stage.Spec.Code
	if stage.Spec.Training != nil && stage.Spec.Training.Code != nil {
		code = stage.Spec.Training.Code
	}
	script := scriptOf(stage)
	if code == nil {
		if script != "" {
			return "", &unfit{fmt.Sprintf("the script %s is looked for in the code folder, and the stage has no code: apply the pipeline with muster pipeline apply from where it lies, or give code.url", script)}
		}
		return "", nil
	}
	m := c.deps.Machine
	owner := run.Namespace + "/" + run.Name + "/" + stage.Name
	digest := code.Snapshot
	if digest == "" {
		state := m.Sources.Ensure(owner, code.URL)
		switch state.Phase {
		case source.Failed:
			return "", &unfit{"code: " + state.Message}
		case source.Fetching:
			return "", &notYet{message: "code: " + state.Message}
		}
		digest = state.Digest
	}
	stored, err := m.Sources.Has(owner, digest)
	switch {
	case err != nil:
		return "", &notYet{message: "code: " + err.Error()}
	case !stored:
		return "", &unfit{fmt.Sprintf("code: the snapshot %s is not stored here: apply the pipeline again from where its code lies", digest)}
	}
	if script != "" && !filepath.IsAbs(script) {
		if found, err := m.Sources.Contains(owner, digest, script); err == nil && !found {
			return "", &unfit{fmt.Sprintf("the script %s is not in the stage's code: its path is relative to the code folder, and ignored files are left out", script)}
		}
	}
	print.ID = digest
	if print.Parts, err = m.Sources.Files(owner, digest); err != nil {
		return "", fmt.Errorf("reading what code there is: %w", err)
	}
	return digest, nil
}

// scriptOf is the script of the stage's own or of Spark; empty: none.
func scriptOf(stage *pipeline.Stage) string {
	if stage.Spec.Spark != nil {
		return stage.Spec.Spark.Script
	}
	return stage.Spec.Script
}

func environmentOf(stage *pipeline.Stage) *v1alpha1.Environment {
	if t := stage.Spec.Training; t != nil && t.Environment != nil {
		return t.Environment
	}
	return stage.Spec.Environment
}

// supported says what of a pipeline this Muster cannot do.
func supported(g *pipeline.Graph, m *Machine) error {
	var errs []error
	say := func(stage *pipeline.Stage, words string) {
		errs = append(errs, fmt.Errorf("stage %s: %s: %s", stage.Name, v1alpha1.ReasonUnsupported, words))
	}
	for _, stage := range g.Stages {
		spec := &stage.Spec
		if says := m.cannot(stage); says != "" {
			say(stage, says)
		}
		if says := m.cannotShow(stage); says != "" {
			say(stage, "mountPath: "+says)
		}
		if out := spec.Output; out != nil && out.Egress != "" {
			if _, _, err := egress.Parse(out.Egress); err != nil {
				say(stage, "output.egress: outputs are copied to buckets alone: "+err.Error())
			}
		}
	}
	return errors.Join(errs...)
}

// cannotShow says why files cannot be shown at the path that a stage names; empty: they
// can, or it names none.
func (m *Machine) cannotShow(stage *pipeline.Stage) string {
	at := mountOf(stage)
	switch {
	case at == "":
	case at == "/", at == v1alpha1.PodRoot, strings.HasPrefix(at, v1alpha1.PodRoot+"/"):
		return fmt.Sprintf("%s has other files than the datum's: name a folder that is for them alone, such as /pfs", stage.Spec.MountPath)
	case m.Unmountable != "" && m.imageOf(stage) == "":
		return fmt.Sprintf("nothing can be mounted at %s: %s. Have the program read the folders in $MUSTER_INPUT_<NAME> and write to $MUSTER_OUTPUT, or run it in an image or in the isolated tier", at, m.Unmountable)
	}
	return ""
}
