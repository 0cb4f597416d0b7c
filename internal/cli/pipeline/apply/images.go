package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/imagecheck"
	"github.com/muster-dev/muster/internal/pipeline/command"
	"github.com/muster-dev/muster/internal/pipeline/programs"
)

// runnable refuses pipelines with an image that embedded Muster does not map and cannot run.
func (o *options) runnable(all []*unstructured.Unstructured) error {
	machine := imagecheck.Of(o.factory)
	if machine == nil {
		return nil
	}
	for _, tree := range all {
		p := &v1alpha1.Pipeline{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree.Object, p); err != nil {
			continue // the server reports the error
		}
		for i := range p.Spec.Stages {
			if why := machine.Refusal(imagesOf(&p.Spec, &p.Spec.Stages[i])); why != "" {
				return exit.Usage("pipeline %s: stage %s: %s", p.Name, p.Spec.Stages[i].Name, why)
			}
		}
	}
	return nil
}

// notePrograms prints, for stages in mapped images, the files of the machine that count for their
// results.
func (o *options) notePrograms(ctx context.Context, all []*unstructured.Unstructured) error {
	machine := imagecheck.Of(o.factory)
	if machine == nil {
		return nil
	}
	for _, tree := range all {
		p := &v1alpha1.Pipeline{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree.Object, p); err != nil {
			continue // the server reports the error
		}
		for i := range p.Spec.Stages {
			stage := &p.Spec.Stages[i]
			for _, image := range imagesOf(&p.Spec, stage) {
				if !machine.Mapped(image) || stage.Code != nil || p.Spec.Code != nil {
					continue
				}
				found, err := programs.Look(ctx, programs.Request{Commands: command.Of(stage)})
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(o.factory.Streams.Err, "note: %s: stage %s: %s\n", p.Name, stage.Name, counted(image, found.Files)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// counted returns a sentence about the files of a machine that count for a stage in a mapped image.
func counted(image string, found []programs.File) string {
	if len(found) == 0 {
		return fmt.Sprintf("the image %q stands for this machine's programs, and its command names none of their files: a change of its program computes nothing again. Name the program by its absolute path, or give code", image)
	}
	paths := make([]string, len(found))
	for i, f := range found {
		paths[i] = f.Path
	}
	return fmt.Sprintf("the image %q stands for this machine's programs: after a change of %s the next run computes again. Files that these load do not count: put them into code", image, strings.Join(paths, ", "))
}

// imagesOf are the images that a stage names.
func imagesOf(spec *v1alpha1.PipelineSpec, stage *v1alpha1.Stage) (out []string) {
	env := cmp.Or(stage.Environment, spec.Environment)
	if t := stage.Training; t != nil {
		env = cmp.Or(t.Environment, env)
		for i := range t.Roles {
			if template := t.Roles[i].Template; template != nil {
				for k := range template.Spec.Containers {
					out = append(out, template.Spec.Containers[k].Image)
				}
			}
		}
	}
	if env != nil {
		out = append(out, env.Image)
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == "" })
}
