//go:build embedded

package pachyderm

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controlplane/planetest"
)

// TestTheServerTakesThem: what specifications become, with each field that is
// honoured, is what a real API server takes for Pipelines.
func TestTheServerTakesThem(t *testing.T) {
	server := start(t)
	specs := map[string][]byte{}
	files, err := filepath.Glob("testdata/*.spec")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, file := range files {
		if specs[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	for name, m := range fields {
		for field, value := range m.fields {
			base, ok := bases[m.base]
			if !ok {
				base = bases[""]
			}
			specs[name+"."+field] = with(t, base, m.base, field, field, value)
		}
	}
	taken := 0
	for name, spec := range specs {
		result, err := Convert(spec, Options{})
		var refused *RefusedError
		if errors.As(err, &refused) {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, p := range result.Pipelines {
			if p.Namespace == "" {
				p.Namespace = metav1.NamespaceDefault
			}
			if err := server.Create(t.Context(), p, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			taken++
		}
	}
	if taken < 40 {
		t.Errorf("only %d Pipelines were tried", taken)
	}
}

func start(t *testing.T) client.Client {
	t.Helper()
	plane := planetest.Start(t)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	out, err := client.New(plane.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"vision", "labs"} {
		if err := out.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
