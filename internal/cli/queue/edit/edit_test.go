package edit

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
)

func guarantee(text string) change {
	return func(_ context.Context, object *v1alpha1.Queue) error {
		object.Spec.Guaranteed = v1alpha1.ResourceAmounts{"gpu": resource.MustParse(text)}
		return nil
	}
}

func TestEdit(t *testing.T) {
	tests := []struct {
		name, queue string
		by          change
		code        exit.Code
		says        string
		want        string
	}{
		{name: "a change", queue: "ocr", by: guarantee("2"), want: "2"},
		{name: "more than the parent has", queue: "ocr", by: guarantee("3"), code: exit.Failure, says: "queue vision, guaranteed.gpu: 4 is less than the 5", want: "1"},
		{name: "more than there is", queue: "batch", by: guarantee("6"), says: "warning: the queues are guaranteed more than the nodes have, by 2 gpu", want: "1"},
		{name: "no such queue", queue: "orc", by: guarantee("3"), code: exit.Missing, says: "did you mean ocr?", want: "1"},
		{name: "the implied one", queue: "default", by: guarantee("3"), code: exit.Missing, says: "muster queue create default", want: "1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			world := sample.Team(t)
			streams, _, errs := sample.Streams()
			o := &options{streams: streams, getenv: os.Getenv}
			err := o.run(t.Context(), world, tt.queue, tt.by)
			said := errs.String()
			if err != nil {
				said += err.Error()
			}
			if code, _ := exit.Of(err); code != tt.code || !strings.Contains(said, tt.says) || tt.says == "" && said != "" {
				t.Errorf("code %d, said %q", code, said)
			}
			var ocr v1alpha1.Queue
			if err := world.Get(t.Context(), client.ObjectKey{Name: "ocr"}, &ocr); err != nil {
				t.Fatal(err)
			}
			if got := ocr.Spec.Guaranteed["gpu"]; got.String() != tt.want {
				t.Errorf("guaranteed %s, want %s", got.String(), tt.want)
			}
		})
	}
}

func TestEditor(t *testing.T) {
	editor := filepath.Join(t.TempDir(), "editor")
	script := func(text string) {
		if err := os.WriteFile(editor, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	edit := func() (string, error) {
		t.Setenv("TMPDIR", t.TempDir())
		streams, _, _ := sample.Streams()
		o := &options{streams: streams, getenv: func(name string) string { return map[string]string{"EDITOR": editor + " -w"}[name] }}
		world := sample.Team(t)
		err := o.run(t.Context(), world, "ocr", o.inEditor)
		var ocr v1alpha1.Queue
		if err := world.Get(t.Context(), client.ObjectKey{Name: "ocr"}, &ocr); err != nil {
			t.Fatal(err)
		}
		return ocr.Spec.Parent, err
	}
	script(`sed -i 's/parent: vision/parent: batch/' "$2"; sed -i '/guaranteed/,/gpu/d' "$2"`)
	if parent, err := edit(); err != nil || parent != "batch" {
		t.Errorf("parent %q, %v", parent, err)
	}
	for _, wrong := range []struct{ script, says string }{
		{`sed -i 's/parent:/paernt:/' "$2"`, "paernt"},
		{`sed -i 's/name: ocr/name: orc/' "$2"`, "cannot be renamed"},
		{"exit 3", "running the editor"},
	} {
		script(wrong.script)
		if parent, err := edit(); err == nil || parent != "vision" || !strings.Contains(err.Error(), wrong.says) || !strings.Contains(err.Error(), "what you wrote is in") {
			t.Errorf("%s: parent %q, %v", wrong.script, parent, err)
		}
	}
	streams, _, _ := sample.Streams()
	none := &options{streams: streams, getenv: func(string) string { return "" }}
	err := none.inEditor(t.Context(), sample.Queue("a", "", "", nil))
	if diff := cmp.Diff("change what? Give flags, such as --guaranteed gpu=8, or set EDITOR", err.Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
