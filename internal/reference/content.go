package reference

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// content is a Secret or a ConfigMap that a pod names and cannot do without, and the
// keys that it wants of it.
type content struct {
	secret bool
	name   string
	keys   []string
}

// contents are the references of a pod's volumes and variables that are not optional.
func contents(spec *corev1.PodSpec) []content {
	var out []content
	add := func(secret bool, name string, optional *bool, keys ...string) {
		if name != "" && (optional == nil || !*optional) {
			out = append(out, content{secret: secret, name: name, keys: keys})
		}
	}
	for i := range spec.Volumes {
		volume(&spec.Volumes[i], add)
	}
	variables := func(c *corev1.Container) {
		for _, from := range c.EnvFrom {
			if r := from.SecretRef; r != nil {
				add(true, r.Name, r.Optional)
			}
			if r := from.ConfigMapRef; r != nil {
				add(false, r.Name, r.Optional)
			}
		}
		for _, env := range c.Env {
			if env.ValueFrom == nil {
				continue
			}
			if r := env.ValueFrom.SecretKeyRef; r != nil {
				add(true, r.Name, r.Optional, r.Key)
			}
			if r := env.ValueFrom.ConfigMapKeyRef; r != nil {
				add(false, r.Name, r.Optional, r.Key)
			}
		}
	}
	for i := range spec.InitContainers {
		variables(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		variables(&spec.Containers[i])
	}
	return out
}

// volume adds the references of a volume.
func volume(v *corev1.Volume, add func(secret bool, name string, optional *bool, keys ...string)) {
	if s := v.Secret; s != nil {
		add(true, s.SecretName, s.Optional, keysOf(s.Items)...)
	}
	if s := v.ConfigMap; s != nil {
		add(false, s.Name, s.Optional, keysOf(s.Items)...)
	}
	if v.CSI != nil && v.CSI.NodePublishSecretRef != nil {
		add(true, v.CSI.NodePublishSecretRef.Name, nil)
	}
	if v.Projected == nil {
		return
	}
	for _, source := range v.Projected.Sources {
		if s := source.Secret; s != nil {
			add(true, s.Name, s.Optional, keysOf(s.Items)...)
		}
		if s := source.ConfigMap; s != nil {
			add(false, s.Name, s.Optional, keysOf(s.Items)...)
		}
	}
}

func keysOf(items []corev1.KeyToPath) []string {
	out := make([]string, len(items))
	for i := range items {
		out[i] = items[i].Key
	}
	return out
}

// madeForPods is the ConfigMap that Kubernetes makes in every namespace, a moment after
// the namespace: the token of a pod names it.
const madeForPods = "kube-root-ca.crt"

// content returns the fault of a Secret or a ConfigMap, in words; empty: it can be used.
func (c Checker) content(ctx context.Context, namespace string, r content) (string, error) {
	if r.name == madeForPods {
		return "", nil
	}
	key, kind := client.ObjectKey{Namespace: namespace, Name: r.name}, "ConfigMap"
	var has []string
	var err error
	if r.secret {
		kind = "Secret"
		o := &corev1.Secret{}
		err = c.Live.Get(ctx, key, o)
		has = slices.Collect(maps.Keys(o.Data))
	} else {
		o := &corev1.ConfigMap{}
		err = c.Live.Get(ctx, key, o)
		has = slices.AppendSeq(slices.Collect(maps.Keys(o.Data)), maps.Keys(o.BinaryData))
	}
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("it names the %s %s, which is not there (namespace %s)", kind, r.name, namespace), nil
	case err != nil:
		return "", fmt.Errorf("reading %s %s: %w", kind, key, err)
	}
	for _, want := range r.keys {
		if !slices.Contains(has, want) {
			return fmt.Sprintf("it names the key %s of %s %s, which has no such key (namespace %s)", want, kind, r.name, namespace), nil
		}
	}
	return "", nil
}
