package hack

import (
	"encoding/json"
	"path/filepath"
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
