package installation

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
)

const (
	// valuesName is the Secret with the values of the last installation. Values may hold
	// keys, so it is no ConfigMap. No account of Muster may read it.
	valuesName = "muster-values"
	valuesKey  = "values.yaml"
)

// Wish is a requested installation.
type Wish struct {
	// Version is that of Muster.
	Version string
	// Values are set above those of the chart.
	Values map[string]any
	// Force removes the agent although pods cannot end without it.
	Force bool
}

// Last is the last installation.
type Last struct {
	// Values are those that it was made with, where Known.
	Values map[string]any
	// Known is false if there was none, if a version made it that does not keep values, and if the
	// user may not read them.
	Known bool
	// Installed reports that its manager is there.
	Installed bool
}

// Last reads the last installation.
func (c *Cluster) Last(ctx context.Context) (Last, error) {
	runs, err := c.set.AppsV1().Deployments(v1alpha1.SystemNamespace).Get(ctx, managerName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return Last{}, fmt.Errorf("reading the manager's Deployment: %w", err)
	}
	last := Last{Installed: err == nil}
	kept, err := c.set.CoreV1().Secrets(v1alpha1.SystemNamespace).Get(ctx, valuesName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return last, nil
	}
	if err != nil {
		return last, fmt.Errorf("reading the values of the last installation: %w", err)
	}
	// A version that does not keep values has been installed since.
	if last.Installed && runs.Labels[labelVersion] != kept.Labels[labelVersion] {
		return last, nil
	}
	last.Known = true
	if err := yaml.Unmarshal(kept.Data[valuesKey], &last.Values); err != nil {
		return last, fmt.Errorf("reading the values of the last installation in Secret %s/%s: %w; give --reset-values to go without them", v1alpha1.SystemNamespace, valuesName, err)
	}
	return last, nil
}

// labelsOf returns the labels that all rendered objects have.
func labelsOf(objects []*unstructured.Unstructured) map[string]string {
	for _, o := range objects {
		if o.GetKind() == kindDeployment {
			return o.GetLabels()
		}
	}
	return nil
}

// keep returns the Secret with the values of a wish.
func keep(w Wish, labels map[string]string) (*unstructured.Unstructured, error) {
	text, err := yaml.Marshal(w.Values)
	if err != nil {
		return nil, fmt.Errorf("writing the values: %w", err)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: valuesName, Labels: labels},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{valuesKey: text},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the values: %w", err)
	}
	return &unstructured.Unstructured{Object: object}, nil
}

// Lost returns the names, such as agent.create, of the values that were set and are not
// set now, sorted. A list is one value.
func Lost(was, now map[string]any) []string {
	set := map[string]bool{}
	for _, name := range names(now) {
		set[name] = true
	}
	return slices.DeleteFunc(names(was), func(name string) bool { return set[name] })
}

func names(values map[string]any) []string {
	var out []string
	for name, value := range values {
		inner, is := value.(map[string]any)
		if !is {
			out = append(out, name)
			continue
		}
		for _, below := range names(inner) {
			out = append(out, name+"."+below)
		}
	}
	slices.Sort(out)
	return out
}

// Over returns values with others on top, map by map.
func Over(under, over map[string]any) map[string]any {
	out := maps.Clone(under)
	if out == nil {
		out = map[string]any{}
	}
	for name, value := range over {
		inner, isMap := value.(map[string]any)
		below, wasMap := out[name].(map[string]any)
		if isMap && wasMap {
			out[name] = Over(below, inner)
			continue
		}
		out[name] = value
	}
	return out
}
