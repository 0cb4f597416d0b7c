package run

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// TestLinksOutOfTheCode: run keeps a link to an absolute path that members see, with a note, and
// refuses any other with advice.
func TestLinksOutOfTheCode(t *testing.T) {
	job := &v1alpha1.TrainingJob{}
	job.Spec.Volumes = []v1alpha1.JobVolume{{Name: "a", Claim: "a", MountPath: "/mnt/data/"}, {Name: "b", Claim: "b", MountPath: "relative"}}
	job.Spec.Data = []v1alpha1.JobData{{Dataset: "d", Mount: "/digits"}}
	for target, seen := range map[string]bool{
		"/mnt/data": true, "/mnt/data/2024/": true, "/digits/train": true, "/mnt": false, "/mnt/data2": false, "/mnt/data/../other": false, "/relative": false, "/": false,
	} {
		l := &outside{job: job}
		if err := l.check("data", target); (err == nil) != seen {
			t.Errorf("%s: %v", target, err)
		} else if err != nil && !strings.Contains(err.Error(), "--volume CLAIM:"+filepath.Clean(target)) {
			t.Errorf("%s: %v", target, err)
		}
		if err := (&outside{job: job, everything: true}).check("data", target); err != nil {
			t.Errorf("on one machine, %s: %v", target, err)
		}
	}
}

// TestLinksOutOfTheCodeAreTold: the messages of muster run on one machine, and in an image.
func TestLinksOutOfTheCodeAreTold(t *testing.T) {
	t.Setenv("MUSTER_HOME", t.TempDir())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	folder := t.TempDir()
	if err := os.Symlink("/mnt/data", filepath.Join(folder, "data")); err != nil {
		t.Fatal(err)
	}
	said := &bytes.Buffer{}
	o := &options{factory: connection.New(terminal.Streams{Err: said, NoColor: true}, "test")}
	o.flags.Code, o.flags.Command = folder, []string{"true"}
	digest, err := o.snapshot(t.Context(), &v1alpha1.TrainingJob{})
	if err != nil || digest == "" || !strings.Contains(said.String(), "(data -> /mnt/data). The snapshot has only the links") {
		t.Errorf("%q, %v: %s", digest, err, said)
	}
	o.flags.Image = "python:3.13"
	if _, err := o.snapshot(t.Context(), &v1alpha1.TrainingJob{}); err == nil || !strings.Contains(err.Error(), "data leads out of the folder, to /mnt/data: members see only") {
		t.Errorf("in an image: %v", err)
	}
}
