package plan

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/refusal"
)

// read reads the one training job of a file; documents of other kinds beside
// it are passed over.
func read(stdin io.Reader, path string) (*v1alpha1.TrainingJob, error) {
	var text []byte
	var err error
	if path == "-" {
		path = "standard input"
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.NotFound("-f %s: there is no such file", path)
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	var job *v1alpha1.TrainingJob
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		var kind struct {
			Kind string `json:"kind"`
		}
		if err := yaml.Unmarshal(part, &kind); err != nil {
			return nil, exit.Usage("%s: this is no object in YAML or JSON: %s", path, strings.Join(strings.Fields(err.Error()), " "))
		}
		if kind.Kind != "TrainingJob" {
			continue
		}
		if job != nil {
			return nil, exit.Usage("%s holds several training jobs; give one at a time", path)
		}
		if job, err = trainingJob(path, part); err != nil {
			return nil, err
		}
	}
	switch {
	case job == nil:
		return nil, exit.Usage("%s holds no training job; `muster run --dry-run -o yaml` prints one", path)
	case job.Name == "":
		return nil, exit.Usage("%s: metadata.name is missing", path)
	}
	return job, nil
}

// trainingJob reads one training job of the file at path.
func trainingJob(path string, text []byte) (*v1alpha1.TrainingJob, error) {
	type plain v1alpha1.TrainingJob // TrainingJob's own decoder ignores fields that it cannot read
	var tree map[string]any
	job := &plain{}
	err := yaml.UnmarshalStrict(text, &tree)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(tree, job, true)
	}
	if err == nil {
		return (*v1alpha1.TrainingJob)(job), nil
	}
	if explained := refusal.Misread("TrainingJob", path, err); explained.Error() != err.Error() {
		return nil, exit.Usage("%v", explained)
	}
	return nil, exit.Usage("%s: this is no training job: %s", path, strings.Join(strings.Fields(err.Error()), " "))
}
