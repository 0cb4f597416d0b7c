package run

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// TestPackagesOfTheCode: packages of the code are checked in the snapshot, before a job is created,
// and a note explains -e.
func TestPackagesOfTheCode(t *testing.T) {
	t.Setenv("MUSTER_HOME", t.TempDir())
	folder := t.TempDir()
	for name, text := range map[string]string{
		"pkg/setup.py": "x", "bare/x.py": "x", ".gitignore": "/ignored\n", "ignored/setup.py": "x", "notes.txt": "x", "out/setup.py": "x", "shared/x.py": "x", "train.py": "x",
	} {
		at := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("../shared", filepath.Join(folder, "out", "shared")), os.Symlink("pkg", filepath.Join(folder, "link"))); err != nil {
		t.Fatal(err)
	}
	for text, c := range map[string]struct{ refused, told string }{
		"numpy\n":           {"", ""},
		"./pkg\n":           {"", ""},
		"numpy\n-e ./pkg\n": {"", "Note: -e ./pkg is installed as it is now"},
		"./gone\n":          {"./gone: it is not in the code; ignored files are left out", ""},
		"./ignored\n":       {"./ignored: it is not in the code", ""},
		"./bare\n":          {"neither pyproject.toml nor setup.py", ""},
		"./notes.txt\n":     {"no archive of a package", ""},
		"./link\n":          {"it is a link; give the path of its target, pkg", ""},
		"./out\n":           {"its link shared leads out of it, to ../shared", ""},
		"../pkg\n":          {"leads out of the code folder", ""},
	} {
		t.Run(text, func(t *testing.T) {
			list := filepath.Join(folder, "requirements.txt")
			if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			said := &bytes.Buffer{}
			o := &options{factory: connection.New(terminal.Streams{Err: said, NoColor: true}, "test")}
			o.flags.Code, o.flags.Requirements, o.flags.Command = folder, list, []string{"python", "train.py"}
			in, err := o.prepare()
			if err == nil {
				in.Snapshot, err = o.snapshot(t.Context(), &v1alpha1.TrainingJob{})
			}
			if err == nil {
				err = o.checkPackages(in)
			}
			if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("it is refused with %v, want %q", err, c.refused)
			}
			if !strings.Contains(said.String(), c.told) || c.told == "" && strings.Contains(said.String(), "Note") {
				t.Errorf("it says %q, want %q", said.String(), c.told)
			}
		})
	}
	o := &options{factory: connection.New(terminal.Streams{Err: &bytes.Buffer{}, NoColor: true}, "test")}
	if err := o.checkPackages(Inputs{Requirements: "./pkg\n"}); err == nil || !strings.Contains(err.Error(), "the job has no code") {
		t.Errorf("without code: %v", err)
	}
}

// TestIndexSecret: run refuses a missing Secret, or one without a netrc, before a job is created.
func TestIndexSecret(t *testing.T) {
	secret := func(name, key string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: name}, Data: map[string][]byte{key: []byte("machine x.test login a password b")}}
	}
	server := fake.NewClientBuilder().WithObjects(secret("index", "netrc"), secret("other", "token")).Build()
	for name, refused := range map[string]string{
		"": "", "index": "", "other": "no Secret other with the key netrc", "gone": "no Secret gone with the key netrc in namespace lab",
	} {
		o := &options{}
		o.flags.IndexSecret = name
		if err := o.checkIndexSecret(t.Context(), server, "lab"); (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
			t.Errorf("%q: %v, want %q", name, err, refused)
		}
	}
}
