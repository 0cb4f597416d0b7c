package apply

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/pipeline/evaluation"
	"github.com/muster-dev/muster/internal/cli/refusal"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/internal/pachyderm"
	"github.com/muster-dev/muster/internal/pipeline"
)

// Read reads the pipelines of a file as they would be applied, checked, with their
// code stored where they run.
func Read(ctx context.Context, f *connection.Factory, file string) ([]*unstructured.Unstructured, error) {
	o := &options{factory: f}
	found, err := o.read(ctx, file)
	if err != nil {
		return nil, err
	}
	return found, o.send(ctx, found)
}

// read reads the pipelines of a file, checked, with their code stored.
func (o *options) read(ctx context.Context, file string) ([]*unstructured.Unstructured, error) {
	text, folder, err := o.open(file)
	if err == nil && o.isTemplate(file) {
		text, err = o.evaluate(ctx, file)
	}
	if err != nil {
		return nil, err
	}
	if pachyderm.Recognise(text) {
		return o.specifications(file, text)
	}
	var found []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, exit.Usage("%s: %v", file, err)
		}
		var tree map[string]any
		if err := yaml.Unmarshal(document, &tree); err != nil {
			return nil, exit.Usage("%s: %v", file, err)
		}
		if len(tree) == 0 {
			continue
		}
		p, err := o.pipeline(ctx, tree, folder)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return nil, exit.Usage("%s has no pipeline in it", file)
	}
	return found, nil
}

// isTemplate reports whether a file is to be evaluated first.
func (o *options) isTemplate(file string) bool {
	return evaluation.Is(file) || slices.Contains(o.templates, file)
}

// checkArgs refuses arguments that no template takes, and a template on standard input.
func (o *options) checkArgs() error {
	switch {
	case slices.Contains(o.templates, "-"):
		return exit.Usage("--jsonnet -: a template may import files of its folder: name a file")
	case len(o.args) > 0 && !slices.ContainsFunc(o.files, o.isTemplate):
		return exit.Usage("--arg %s: arguments are for a Jsonnet file, and none is given: name it with --jsonnet", o.args[0])
	}
	return nil
}

// evaluate returns the result of a Jsonnet file.
func (o *options) evaluate(ctx context.Context, file string) ([]byte, error) {
	text, err := evaluation.Evaluate(ctx, file, o.args)
	if err != nil {
		return nil, exit.Usage("%s: %v", file, err)
	}
	return text, nil
}

// open reads a file, and says to which folder its paths are relative.
func (o *options) open(file string) (text []byte, folder string, err error) {
	if file == "-" {
		text, err = io.ReadAll(o.factory.Streams.In)
		return text, ".", err
	}
	text, err = os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", exit.NotFound("-f %s: there is no such file", file)
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading -f %s: %w", file, err)
	}
	return text, filepath.Dir(file), nil
}

// pipeline completes and checks one document.
func (o *options) pipeline(ctx context.Context, tree map[string]any, folder string) (*unstructured.Unstructured, error) {
	if tree["kind"] == nil {
		tree["kind"] = "Pipeline"
	}
	if tree["apiVersion"] == nil {
		tree["apiVersion"] = v1alpha1.GroupVersion.String()
	}
	p := &unstructured.Unstructured{Object: tree}
	if p.GetKind() != "Pipeline" || p.GroupVersionKind().Group != v1alpha1.GroupVersion.Group {
		return nil, exit.Usage("it has a %s of %s: here only pipelines are applied; muster apply -f takes everything", p.GetKind(), p.GetAPIVersion())
	}
	if p.GetName() == "" {
		return nil, exit.Usage("the pipeline has no name: give metadata.name")
	}
	spec, ok := tree["spec"].(map[string]any)
	if !ok {
		return nil, exit.Usage("pipeline %s has no spec", p.GetName())
	}
	o.stored = nil
	if err := o.takeCode(ctx, spec, folder); err != nil {
		return nil, fmt.Errorf("pipeline %s: %w", p.GetName(), err)
	}
	type plain v1alpha1.Pipeline // Pipeline's own decoder ignores fields that it cannot read
	typed := &plain{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(tree, typed, true); err != nil {
		subject := "pipeline " + p.GetName()
		if explained := refusal.Misread("Pipeline", subject, err); explained.Error() != err.Error() {
			return nil, exit.Usage("%v", explained)
		}
		return nil, exit.Usage("%s: %v", subject, err)
	}
	if _, err := pipeline.Parse(typed.Name, &typed.Spec); err != nil {
		return nil, exit.Usage("pipeline %s: %v", typed.Name, err)
	}
	if len(o.stored) > 0 {
		if o.code == nil {
			o.code = map[*unstructured.Unstructured][]string{}
		}
		o.code[p] = o.stored
	}
	return p, nil
}

// takeCode puts snapshots in place of the folders and files that code names.
func (o *options) takeCode(ctx context.Context, spec map[string]any, folder string) error {
	if err := o.snapshot(ctx, spec, folder); err != nil {
		return err
	}
	stages, _ := spec["stages"].([]any)
	for i := range stages {
		stage, ok := stages[i].(map[string]any)
		if !ok {
			continue
		}
		if script := scriptOf(stage); stage["code"] == nil && spec["code"] == nil && script != "" && !filepath.IsAbs(script) {
			// The script is all the code there is: in its snapshot it lies at the top.
			if err := o.hint(stage["name"], folder, script); err != nil {
				return err
			}
			stage["code"] = script
			setScript(stage, filepath.Base(script))
		}
		takeExecutors(stage)
		if err := o.snapshot(ctx, stage, folder); err != nil {
			return fmt.Errorf("stage %v: %w", stage["name"], err)
		}
	}
	return nil
}

// scriptOf is the one script that a stage names.
func scriptOf(stage map[string]any) string {
	if script, ok := stage["script"].(string); ok {
		return script
	}
	if spark, ok := stage["spark"].(map[string]any); ok {
		script, _ := spark["script"].(string)
		return script
	}
	training, _ := stage["training"].(map[string]any)
	if training["code"] != nil {
		return ""
	}
	script := ""
	for _, role := range roles(training) {
		named, _ := role["script"].(string)
		if script != "" && named != script {
			return ""
		}
		script = named
	}
	return script
}

// takeExecutors puts from how many to how many in place of a number of executors.
func takeExecutors(stage map[string]any) {
	spark, _ := stage["spark"].(map[string]any)
	switch n := spark["executors"].(type) {
	case int64, float64:
		spark["executors"] = map[string]any{"min": n, "max": n}
	}
}

func roles(training map[string]any) (out []map[string]any) {
	list, _ := training["roles"].([]any)
	for i := range list {
		if role, ok := list[i].(map[string]any); ok {
			out = append(out, role)
		}
	}
	return out
}

func setScript(stage map[string]any, script string) {
	if _, ok := stage["script"].(string); ok {
		stage["script"] = script
		return
	}
	if spark, ok := stage["spark"].(map[string]any); ok {
		spark["script"] = script
		return
	}
	training, _ := stage["training"].(map[string]any)
	for _, role := range roles(training) {
		role["script"] = script
	}
}

// snapshot stores what code names, where that is a path.
func (o *options) snapshot(ctx context.Context, of map[string]any, folder string) error {
	path, ok := of["code"].(string)
	if !ok {
		return nil
	}
	if path == "" {
		return exit.Usage("code is empty: name a folder or a file, or leave it out")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return exit.NotFound("code: there is no %s; paths are relative to the pipeline's file", path)
	}
	home, err := o.factory.DataFolder()
	if err != nil {
		return err
	}
	store, err := source.Open(filepath.Join(home, "code"))
	if err != nil {
		return err
	}
	progress := terminal.NewProgress(o.factory.Streams.Err, "Storing the code", terminal.Bytes)
	defer progress.Stop()
	result, err := store.Snapshot(ctx, path, source.Options{Without: home, Progress: func(p source.Progress) { progress.Set(p.Bytes, p.TotalBytes) }})
	if err != nil {
		return fmt.Errorf("code: %w", err)
	}
	of["code"] = map[string]any{"snapshot": result.Digest}
	if !slices.Contains(o.stored, result.Digest) {
		o.stored = append(o.stored, result.Digest)
	}
	return nil
}

// send brings the snapshots of pipelines to a cluster's manager, which keeps them for
// the nodes; what it has is not sent again. On embedded Muster they are where they are
// needed already.
func (o *options) send(ctx context.Context, all []*unstructured.Unstructured) error {
	if len(o.code) == 0 || o.dryRun || o.factory.Embedded() {
		return nil
	}
	manager, err := o.factory.Visitor()
	if err != nil {
		return err
	}
	home, err := o.factory.DataFolder()
	if err != nil {
		return err
	}
	store, err := source.Open(filepath.Join(home, "code"))
	if err != nil {
		return err
	}
	namespace, err := o.factory.Namespace()
	if err != nil {
		return err
	}
	progress := terminal.NewProgress(o.factory.Streams.Err, "Sending the code", terminal.Bytes)
	defer progress.Stop()
	for _, p := range all {
		for _, digest := range o.code[p] {
			if _, err := manager.Send(ctx, cmp.Or(p.GetNamespace(), namespace), store, digest, progress.Set); err != nil {
				return fmt.Errorf("sending the code of pipeline %s: %w", p.GetName(), err)
			}
		}
	}
	return nil
}
