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

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
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
		job = &v1alpha1.TrainingJob{}
		if err := yaml.UnmarshalStrict(part, job); err != nil {
			return nil, exit.Usage("%s: this is no training job: %s", path, strings.Join(strings.Fields(err.Error()), " "))
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
