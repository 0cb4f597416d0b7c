package pachyderm

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// FuzzConvert: whatever the bytes are, they are refused with reasons or become
// Pipelines whose names the API takes, the same each time.
func FuzzConvert(f *testing.F) {
	files, err := filepath.Glob("testdata/*.spec")
	if err != nil || len(files) == 0 {
		f.Fatalf("examples: %v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, base := range bases {
		f.Add([]byte(base))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Convert(data, Options{})
		var refused *RefusedError
		if errors.As(err, &refused) && len(refused.Remarks) == 0 {
			t.Fatal("refused without a reason")
		}
		if err != nil {
			return
		}
		if !Recognise(data) {
			t.Error("it is converted and not recognised")
		}
		for _, p := range out.Pipelines {
			check(t, p)
		}
		again, err := Convert(data, Options{})
		if diff := cmp.Diff(out, again); diff != "" || err != nil {
			t.Errorf("the second time: %v\n%s", err, diff)
		}
	})
}

// check is what the API wants of a Pipeline.
func check(t *testing.T, p *v1alpha1.Pipeline) {
	t.Helper()
	if !pipelineName.MatchString(p.Name) || len(p.Name) > 30 || len(p.Spec.Stages) != 1 {
		t.Fatalf("got %+v", p)
	}
	s := p.Spec.Stages[0]
	if len(s.Command) == 0 || len(s.Command) > maxWords || s.MountPath != mountPath || !datasetName.MatchString(s.Output.Dataset) {
		t.Errorf("got %+v", s)
	}
	ways := len(s.Input.Cross) + len(s.Input.Join) + len(s.Input.Group) + len(s.Input.Union)
	sources := 0
	if s.Input.Dataset != "" {
		sources++
	}
	if s.Input.Cron != nil {
		sources++
	}
	if (sources == 1) == (ways > 0) || sources > 1 || ways > maxParts {
		t.Errorf("input: got %+v", s.Input)
	}
}
