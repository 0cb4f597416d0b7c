package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/internal/cli/exit"
)

// Document is one object of a manifest.
type Document struct {
	// At is the place of the object: "job.yaml" or "job.yaml, document 2".
	At     string
	Object *unstructured.Unstructured
}

// Read reads all objects of the manifests at paths, which are files, folders or "-" for stdin. It
// reads all of them before it returns any, so that an error in the last one leaves nothing half
// done. The objects have a kind; [Document.Named] checks their names.
func Read(stdin io.Reader, paths []string) ([]Document, error) {
	var documents []Document
	for _, path := range paths {
		files, err := expand(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := readFile(stdin, file)
			if err != nil {
				return nil, err
			}
			found, err := parse(file, text)
			if err != nil {
				return nil, err
			}
			documents = append(documents, found...)
		}
	}
	if len(documents) == 0 {
		named := strings.Join(paths, ", ")
		if named == "-" {
			named = "standard input"
		}
		return nil, exit.Usage("%s holds no objects: give a manifest, such as `muster run --dry-run -o yaml` prints", named)
	}
	return documents, nil
}

// expand lists the manifests of a folder; a file stands for itself.
func expand(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.NotFound("-f %s: there is no such file", path)
	case err != nil:
		return nil, fmt.Errorf("reading the manifests: %w", err)
	case !info.IsDir():
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	return files, nil
}

func readFile(stdin io.Reader, path string) ([]byte, error) {
	if path == "-" {
		text, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("reading the standard input: %w", err)
		}
		return text, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	return text, nil
}

// parse takes a file apart. Lists become their items.
func parse(path string, text []byte) ([]Document, error) {
	if path == "-" {
		path = "standard input"
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var documents []Document
	for number := 1; ; number++ {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		var tree map[string]any
		if err := yaml.UnmarshalStrict(part, &tree); err != nil {
			return nil, exit.Usage("%s, document %d: this is no object in YAML or JSON: %s", path, number, grievance(err))
		}
		if len(tree) == 0 {
			number--
			continue
		}
		if tree, err = whole(part); err != nil {
			return nil, fmt.Errorf("reading %s, document %d: %w", path, number, err)
		}
		object := &unstructured.Unstructured{Object: tree}
		at := fmt.Sprintf("%s, document %d", path, number)
		if object.IsList() && strings.HasSuffix(object.GetKind(), "List") {
			items, err := object.ToList()
			if err != nil {
				return nil, exit.Usage("%s: %v", at, err)
			}
			for i := range items.Items {
				documents = append(documents, Document{At: fmt.Sprintf("%s, item %d", at, i+1), Object: &items.Items[i]})
			}
			continue
		}
		documents = append(documents, Document{At: at, Object: object})
	}
	if len(documents) == 1 {
		documents[0].At = path
	}
	for _, d := range documents {
		if err := d.check(); err != nil {
			return nil, err
		}
	}
	return documents, nil
}

// whole reads a document with whole numbers as such: the strict reader makes floats of
// them, which lose digits.
func whole(document []byte) (map[string]any, error) {
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	err = utiljson.Unmarshal(text, &tree)
	return tree, err
}

// grievance is what a YAML parser complains about, on one line and without its
// own vocabulary.
func grievance(err error) string {
	words := strings.Join(strings.Fields(err.Error()), " ")
	if _, kind, found := strings.Cut(words, "json: cannot unmarshal "); found {
		kind, _, _ = strings.Cut(kind, " ")
		return "it is of type " + kind
	}
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors: "} {
		words = strings.TrimPrefix(words, prefix)
	}
	return words
}

// check refuses what cannot be an object, before the server is asked.
func (d Document) check() error {
	switch {
	case d.Object.GetAPIVersion() == "":
		return exit.Usage("%s: apiVersion is missing: a training job's is muster.dev/v1alpha1", d.At)
	case d.Object.GetKind() == "":
		return exit.Usage("%s: kind is missing: give TrainingJob, Pod, Deployment or the like", d.At)
	}
	return nil
}

// Named refuses an object without a name, which can be neither applied nor deleted.
func (d Document) Named() error {
	switch {
	case d.Object.GetName() == "" && d.Object.GetGenerateName() != "":
		return exit.Usage("%s: this object has metadata.generateName, so its name is not known: give metadata.name, or use muster kubectl create", d.At)
	case d.Object.GetName() == "":
		return exit.Usage("%s: metadata.name is missing", d.At)
	}
	return nil
}
