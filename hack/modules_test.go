package hack

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/hack/suite/input"
)

// TestOneVersionOfEachModule keeps the packages that bin/muster shares with the programs of the
// test cluster from being compiled twice. One module that differs is enough: all packages that
// import it, directly or not, are then compiled for each program.
func TestOneVersionOfEachModule(t *testing.T) {
	if err := input.Observe("..", []string{"go.mod", "test/cluster/upstream/kubernetes/go.mod", "test/cluster/upstream/coredns/go.mod"}); err != nil {
		t.Fatal(err)
	}
	ours := required(t, "..")
	for _, program := range []string{"kubernetes", "coredns"} {
		shared := 0
		for module, version := range required(t, filepath.Join("..", "test", "cluster", "upstream", program)) {
			switch ours[module] {
			case "":
			case version:
				shared++
			default:
				t.Errorf("test/cluster/upstream/%s/go.mod requires %s %s, go.mod requires %s: run 'go get %s@VERSION' in one of both, with the later version", program, module, version, ours[module], module)
			}
		}
		if shared < 10 {
			t.Errorf("%s shares %d modules with Muster: the test compares nothing", program, shared)
		}
	}
}

// TestModulesAreListed keeps commands that read all modules working, such as `go list -m all`. They
// fail where a module is required at a version that was never published: k8s.io/kubernetes
// requires its staging modules at v0.0.0.
func TestModulesAreListed(t *testing.T) {
	folders := modules(t)
	if len(folders) < 5 {
		t.Errorf("found modules in %q alone: the test misses some", folders)
	}
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			if err := input.Observe("..", []string{filepath.Join(folder, "go.mod"), filepath.Join(folder, "go.sum")}); err != nil {
				t.Fatal(err)
			}
			listed, said, err := run(t, filepath.Join("..", folder), nil, "go", "list", "-m", "all")
			if err != nil {
				t.Fatalf("go list -m all: %v\n%s", err, said)
			}
			if strings.Contains(listed, " v0.0.0\n") {
				t.Errorf("modules at v0.0.0, which was never published:\n%s", listed)
			}
		})
	}
}

// modules returns the folders of this repository that have a go.mod.
func modules(t *testing.T) []string {
	t.Helper()
	text, said, err := run(t, "..", nil, "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		t.Fatalf("listing the repository's modules: %v\n%s", err, said)
	}
	var folders []string
	for _, file := range strings.Fields(text) {
		folders = append(folders, filepath.Dir(file))
	}
	return folders
}

// required returns the version of each module that the go.mod of a folder requires.
func required(t *testing.T, dir string) map[string]string {
	t.Helper()
	text, _, err := run(t, dir, nil, "go", "mod", "edit", "-json")
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal([]byte(text), &mod); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range mod.Require {
		versions[r.Path] = r.Version
	}
	return versions
}
