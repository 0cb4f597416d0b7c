package expansion

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// from adds all variables of a ConfigMap or Secret.
func from(v *Variables, source *corev1.EnvFromSource, lookup Lookup) error {
	var data map[string]string
	switch {
	case source.ConfigMapRef != nil:
		m, err := lookup.ConfigMap(source.ConfigMapRef.Name)
		if missing(err, source.ConfigMapRef.Optional) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("envFrom: reading ConfigMap %q: %w", source.ConfigMapRef.Name, err)
		}
		data = m.Data
	case source.SecretRef != nil:
		s, err := lookup.Secret(source.SecretRef.Name)
		if missing(err, source.SecretRef.Optional) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("envFrom: reading Secret %q: %w", source.SecretRef.Name, err)
		}
		data = map[string]string{}
		for key, value := range s.Data {
			data[key] = string(value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		v.Set(source.Prefix+key, data[key])
	}
	return nil
}

// missing is true for an object that is not there and need not be.
func missing(err error, optional *bool) bool {
	return apierrors.IsNotFound(err) && optional != nil && *optional
}

// valueFrom returns a variable's value, and false when an optional source is
// not there.
func valueFrom(in Input, source *corev1.EnvVarSource) (string, bool, error) {
	switch {
	case source.FieldRef != nil:
		value, err := Field(in.Pod, source.FieldRef.FieldPath)
		return value, true, err
	case source.ResourceFieldRef != nil:
		value, err := Resource(in.Pod, in.Container, source.ResourceFieldRef, in.Allocatable)
		return value, true, err
	case source.ConfigMapKeyRef != nil:
		return configMapKey(in.Lookup, source.ConfigMapKeyRef)
	case source.SecretKeyRef != nil:
		return secretKey(in.Lookup, source.SecretKeyRef)
	}
	return "", false, fmt.Errorf("valueFrom has no source that this node knows")
}

func configMapKey(lookup Lookup, ref *corev1.ConfigMapKeySelector) (string, bool, error) {
	m, err := lookup.ConfigMap(ref.Name)
	if missing(err, ref.Optional) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("reading ConfigMap %q: %w", ref.Name, err)
	}
	if value, ok := m.Data[ref.Key]; ok {
		return value, true, nil
	}
	return absent("ConfigMap", ref.Name, ref.Key, ref.Optional)
}

func secretKey(lookup Lookup, ref *corev1.SecretKeySelector) (string, bool, error) {
	s, err := lookup.Secret(ref.Name)
	if missing(err, ref.Optional) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("reading Secret %q: %w", ref.Name, err)
	}
	if value, ok := s.Data[ref.Key]; ok {
		return string(value), true, nil
	}
	return absent("Secret", ref.Name, ref.Key, ref.Optional)
}

func absent(kind, name, key string, optional *bool) (string, bool, error) {
	if optional != nil && *optional {
		return "", false, nil
	}
	return "", false, fmt.Errorf("the %s %q has no key %q", kind, name, key)
}
