package volume

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// tenants has one store for each namespace: a folder with the names of what is stored
// there. It implements every interface by which volumes get code, data and environments.
type tenants struct {
	dir    string
	stored map[string][]string // by namespace
	asked  []string
}

func (s *tenants) find(namespace, name string) (string, error) {
	s.asked = append(s.asked, namespace+": "+name)
	if !slices.Contains(s.stored[namespace], name) {
		return "", fmt.Errorf("%s is not stored for namespace %q", name, namespace)
	}
	folder := filepath.Join(s.dir, namespace)
	return folder, os.MkdirAll(folder, 0o755)
}

func (s *tenants) Path(namespace, key string) (string, error) {
	return s.find(namespace, "environment "+key)
}

func (s *tenants) Bench(namespace, key, who string) (string, error) {
	return s.find(namespace, "bench "+key+" of "+who)
}

func (s *tenants) Checkout(_ context.Context, namespace, digest, dir string) error {
	if _, err := s.find(namespace, "code "+digest); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o755)
}

func (s *tenants) Folder(_ context.Context, namespace, key, commit, path string) (string, error) {
	return s.find(namespace, "data "+key+" "+commit+":"+path)
}

func (s *tenants) Mount(_ context.Context, namespace string, pod types.UID, commit, path string) (string, error) {
	return s.find(namespace, "mount "+commit+":"+path+" for "+string(pod))
}

func (s *tenants) Forget(types.UID) error { return nil }

// TestNamespaces asks every store for what another namespace has: the store hears the
// pod's namespace, and its refusal reaches the pod.
func TestNamespaces(t *testing.T) {
	for name, c := range map[string]struct {
		driver     string
		attributes map[string]string
		stored     string
	}{
		"code":                    {v1alpha1.CodeDriver, map[string]string{"snapshot": "sha256:ab"}, "code sha256:ab"},
		"code of a job":           {v1alpha1.CodeDriver, map[string]string{"snapshot": "sha256:ab", "job": "j"}, "code sha256:ab"},
		"an environment":          {v1alpha1.EnvironmentDriver, map[string]string{"key": "k"}, "environment k"},
		"an environment to build": {v1alpha1.EnvironmentDriver, map[string]string{"key": "k", "build": "true"}, "bench k of u"},
		"data":                    {v1alpha1.DataDriver, map[string]string{"key": "k", "commit": "c", "path": "/train"}, "data k c:/train"},
		"data that is mounted":    {v1alpha1.DataDriver, map[string]string{"commit": "c", "path": "/train", "lazy": "true"}, "mount c:/train for u"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &tenants{dir: t.TempDir(), stored: map[string][]string{"ann": {c.stored}}}
			m := newManager(t, &objects{}, func(o *Config) { o.Code, o.Environments, o.Data, o.Mounts = s, s, s, s })
			pod := podWith(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: c.driver, VolumeAttributes: c.attributes}})
			for _, namespace := range []string{"bob", "ann"} {
				pod.Namespace = namespace
				volumes, err := m.Prepare(t.Context(), pod)
				if namespace == "ann" && (err != nil || volumes["v"].Path == "") {
					t.Errorf("a pod of the namespace that has it: %v, %v", volumes, err)
				}
				if want := c.stored + ` is not stored for namespace "bob"`; namespace == "bob" && (err == nil || !strings.Contains(err.Error(), want) || len(volumes) > 0) {
					t.Errorf("a pod of another namespace: %v, %v; want the error %q", slices.Collect(maps.Values(volumes)), err, want)
				}
			}
			if want := []string{"bob: " + c.stored, "ann: " + c.stored}; !slices.Equal(s.asked, want) {
				t.Errorf("the store heard %q, want %q", s.asked, want)
			}
		})
	}
}
