package expansion

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "1", "EMPTY": ""}
	cases := []struct{ in, want string }{
		{"plain", "plain"}, {"$(A)", "1"}, {"x$(A)y$(A)", "x1y1"}, {"$(EMPTY)", ""},
		{"$(NONE)", "$(NONE)"}, {"$$(A)", "$(A)"}, {"$$$(A)", "$1"}, {"$A", "$A"}, {"$", "$"},
		{"$(A", "$(A"}, {"$()", "$()"}, {"a$", "a$"}, {"$(NONE$(A))", "$(NONE$(A))"},
	}
	for _, c := range cases {
		if got := Expand(c.in, func(name string) (string, bool) { v, ok := values[name]; return v, ok }); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
}

type store struct{}

func (store) ConfigMap(name string) (*corev1.ConfigMap, error) {
	if name != "cm" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return &corev1.ConfigMap{Data: map[string]string{"k": "v", "l": "w"}}, nil
}

func (store) Secret(name string) (*corev1.Secret, error) {
	if name != "s" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &corev1.Secret{Data: map[string][]byte{"p": []byte("q")}}, nil
}

func TestEnvironment(t *testing.T) {
	yes := true
	ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	cm := func(name, key string, optional *bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref(name), Key: key, Optional: optional}}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "x"}},
		Status:     corev1.PodStatus{PodIP: "10.0.0.1"},
	}
	cases := []struct {
		name    string
		ctr     corev1.Container
		want    []string
		failing string
	}{
		{"root first", corev1.Container{Env: []corev1.EnvVar{{Name: "D", Value: "$(MUSTER_ROOT)/x"}}}, []string{"MUSTER_ROOT=/r", "S=1", "D=/r/x"}, ""},
		{"root is the node's", corev1.Container{Env: []corev1.EnvVar{{Name: "MUSTER_ROOT", Value: "/muster"}, {Name: "D", Value: "$(MUSTER_ROOT)/x"}}}, []string{"MUSTER_ROOT=/r", "S=1", "D=/r/x"}, ""},
		{"order", corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "$(B)"}, {Name: "B", Value: "2"}, {Name: "C", Value: "$(B)"}}}, []string{"MUSTER_ROOT=/r", "S=1", "A=$(B)", "B=2", "C=2"}, ""},
		{"from", corev1.Container{EnvFrom: []corev1.EnvFromSource{
			{Prefix: "X_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("cm")}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("s")}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("none"), Optional: &yes}},
		}, Env: []corev1.EnvVar{{Name: "p", Value: "$(X_k)"}}}, []string{"MUSTER_ROOT=/r", "S=1", "X_k=v", "X_l=w", "p=v"}, ""},
		{"fields", corev1.Container{Env: []corev1.EnvVar{
			{Name: "N", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}}},
			{Name: "I", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
		}}, []string{"MUSTER_ROOT=/r", "S=1", "N=x", "I=10.0.0.1"}, ""},
		{"resources", corev1.Container{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1Gi")}},
			Env: []corev1.EnvVar{
				{Name: "R", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu"}}},
				{Name: "M", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.memory", Divisor: resource.MustParse("1Mi")}}},
				{Name: "L", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}},
			},
		}, []string{"MUSTER_ROOT=/r", "S=1", "R=2", "M=1024", "L=8"}, ""},
		{"optional key", corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: cm("cm", "none", &yes)}, {Name: "B", ValueFrom: cm("none", "k", &yes)}}}, []string{"MUSTER_ROOT=/r", "S=1"}, ""},
		{"missing key", corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: cm("cm", "none", nil)}}}, nil, `env A: the ConfigMap "cm" has no key "none"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v, err := Environment(Input{
				Pod: pod, Container: &c.ctr, Root: "/r", Services: []string{"S=1"}, Lookup: store{},
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("8")},
			})
			if c.failing != "" {
				if err == nil || err.Error() != c.failing {
					t.Errorf("got %v, want %s", err, c.failing)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, v.List()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestActivate(t *testing.T) {
	conda := t.TempDir()
	if err := os.Mkdir(filepath.Join(conda, "conda-meta"), 0o755); err != nil {
		t.Fatal(err)
	}
	venv := t.TempDir()
	for folder, name := range map[string]string{conda: "CONDA_PREFIX", venv: "VIRTUAL_ENV"} {
		v := &Variables{}
		v.Set("PATH", "/bin")
		v.Set("PYTHONHOME", "/x")
		Activate(v, folder)
		path, _ := v.Get("PATH")
		prefix, _ := v.Get(name)
		if _, ok := v.Get("PYTHONHOME"); ok || path != folder+"/bin:/bin" || prefix != folder {
			t.Errorf("%s: got %v", name, v.List())
		}
	}
}
