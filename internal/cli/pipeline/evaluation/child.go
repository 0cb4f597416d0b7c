package evaluation

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/google/go-jsonnet"
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/osfile"
)

const (
	// mostMemory is the memory limit of the child process, in bytes.
	mostMemory = 512 << 20
	// mostFile is the largest size of a file, in bytes, and mostImports the largest number of imported
	// files.
	mostFile    = 4 << 20
	mostImports = 256
)

// New returns the hidden command that evaluates in a child process.
func New(f *connection.Factory) *cobra.Command {
	return &cobra.Command{
		Use: Verb, Hidden: true, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error { return Answer(f.Streams.In, f.Streams.Out) },
	}
}

// Answer evaluates one request, in a process that does nothing else.
func Answer(in io.Reader, out io.Writer) error {
	if err := limitMemory(mostMemory); err != nil {
		return fmt.Errorf("limiting the memory of an evaluation: %w", err)
	}
	var q request
	if err := json.NewDecoder(io.LimitReader(in, mostFile)).Decode(&q); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	text, err := q.evaluate()
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}

func (q *request) evaluate() (string, error) {
	root, err := os.OpenRoot(q.Folder)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	text, err := osfile.ReadRegular(root, q.Name, mostFile)
	if err != nil {
		return "", err
	}
	vm := jsonnet.MakeVM()
	vm.Importer(&importer{root: root, found: map[string]jsonnet.Contents{}})
	for name, value := range q.Args {
		vm.TLAVar(name, value)
	}
	return vm.EvaluateAnonymousSnippet(q.Name, string(text))
}

// importer reads files in a folder.
type importer struct {
	root  *os.Root
	found map[string]jsonnet.Contents
}

// Import implements [jsonnet.Importer].
func (i *importer) Import(from, name string) (jsonnet.Contents, string, error) {
	at := path.Join(path.Dir(from), name)
	if path.IsAbs(name) || at == ".." || strings.HasPrefix(at, "../") {
		return jsonnet.Contents{}, "", fmt.Errorf("%s is not in the folder of the file: only files in it are imported", name)
	}
	if known, ok := i.found[at]; ok {
		return known, at, nil
	}
	if len(i.found) == mostImports {
		return jsonnet.Contents{}, "", fmt.Errorf("%s: more than %d files are imported", name, mostImports)
	}
	text, err := osfile.ReadRegular(i.root, at, mostFile)
	if err != nil {
		return jsonnet.Contents{}, "", err
	}
	i.found[at] = jsonnet.MakeContentsRaw(text)
	return i.found[at], at, nil
}
