package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPlaces: in the plain tier the node, which may be root, makes links in folders of the pod only,
// and follows no link that a program made there.
func TestPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		dir, at string
		own     bool
		// prepare puts links into the pod's root and into its volume.
		prepare func(root, volume, outside string) error
		made    string // in the pod's root, or the volume's; empty: refused
		says    string
	}{
		"below the root":               {at: "/muster/a/b", made: "a/b"},
		"relative":                     {dir: "/muster/work", at: "a/b", made: "work/a/b"},
		"in the pod's volume":          {at: "/muster/v/a/b", own: true, made: "v/a/b"},
		"relative in the pod's volume": {dir: "/muster/v/work", at: "a", own: true, made: "v/work/a"},
		"in another volume":            {at: "/muster/v/a/b", says: "lies in a volume that is not the pod's own"},
		"a folder of the machine":      {dir: "OUTSIDE", at: "a", says: "is not below the pod's root"},
		"the root":                     {at: "/muster", says: "is not below the pod's root"},
		"through a link in the root": {at: "/muster/l/a", says: "is a symbolic link", prepare: func(root, _, outside string) error {
			return os.Symlink(outside, filepath.Join(root, "l"))
		}},
		"through a link in the volume": {at: "/muster/v/l/a", own: true, says: "is a symbolic link", prepare: func(_, volume, outside string) error {
			return os.Symlink(outside, filepath.Join(volume, "l"))
		}},
		"through a link within the root": {at: "/muster/l/a", says: "is a symbolic link", prepare: func(root, _, _ string) error {
			return errors.Join(os.Mkdir(filepath.Join(root, "d"), 0o755), os.Symlink("d", filepath.Join(root, "l")))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			root, volume, data, outside := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
			if c.prepare != nil {
				if err := c.prepare(root, volume, outside); err != nil {
					t.Fatal(err)
				}
			}
			_, err := See(t.Context(), Request{
				Pod: &corev1.Pod{}, Root: root, Volumes: map[string]Volume{"v": {Path: volume, Own: c.own}, "data": {Path: data}},
				Container: &corev1.Container{WorkingDir: strings.Replace(c.dir, "OUTSIDE", outside, 1), VolumeMounts: []corev1.VolumeMount{
					{Name: "data", MountPath: c.at}, {Name: "v", MountPath: "/muster/v"},
				}},
			})
			if c.made == "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want an error with %q", err, c.says)
				}
			} else if to, failed := os.Readlink(filepath.Join(root, c.made)); err != nil || failed != nil || to != data {
				t.Errorf("the link leads to %q: %v, %v", to, err, failed)
			}
			for _, dir := range []string{outside, volume} {
				if made, err := os.ReadDir(dir); err != nil || len(made) > 0 && c.prepare == nil && !c.own || dir == outside && len(made) > 0 {
					t.Errorf("%v was made in %s: %v", made, dir, err)
				}
			}
		})
	}
}
