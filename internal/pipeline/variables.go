package pipeline

import (
	corev1 "k8s.io/api/core/v1"
)

// Reference is a Secret or a ConfigMap that variables of a stage come from.
type Reference struct {
	// Kind is Secret or ConfigMap.
	Kind, Name string
	// Variable is the first that comes from it; empty: all of its keys are variables.
	Variable string
	// Optional says that a stage runs without it.
	Optional bool

	key string
}

// References are what the variables of a stage come from, each once.
func References(s *Stage) []Reference {
	var out []Reference
	at := map[string]int{}
	add := func(ref Reference) {
		name := VersionOf(ref.Kind, ref.Name)
		i, known := at[name]
		if !known {
			at[name] = len(out)
			out = append(out, ref)
			return
		}
		out[i].Optional = out[i].Optional && ref.Optional
	}
	for _, v := range variablesOf(s) {
		for i := range v.env {
			if ref, ok := referenceOf(&v.env[i]); ok {
				add(ref)
			}
		}
		for i := range v.from {
			if ref := groupOf(&v.from[i]); ref.Name != "" {
				add(ref)
			}
		}
	}
	return out
}

// referenceOf is what one variable comes from, if it is something of that kind.
func referenceOf(v *corev1.EnvVar) (ref Reference, ok bool) {
	from := v.ValueFrom
	switch {
	case from == nil:
		return ref, false
	case from.SecretKeyRef != nil:
		of := from.SecretKeyRef
		return Reference{Kind: "Secret", Name: of.Name, Variable: v.Name, Optional: of.Optional != nil && *of.Optional, key: of.Key}, true
	case from.ConfigMapKeyRef != nil:
		of := from.ConfigMapKeyRef
		return Reference{Kind: "ConfigMap", Name: of.Name, Variable: v.Name, Optional: of.Optional != nil && *of.Optional, key: of.Key}, true
	}
	return ref, false
}

// groupOf is what several variables at once come from.
func groupOf(from *corev1.EnvFromSource) Reference {
	switch {
	case from.SecretRef != nil:
		return Reference{Kind: "Secret", Name: from.SecretRef.Name, Optional: from.SecretRef.Optional != nil && *from.SecretRef.Optional}
	case from.ConfigMapRef != nil:
		return Reference{Kind: "ConfigMap", Name: from.ConfigMapRef.Name, Optional: from.ConfigMapRef.Optional != nil && *from.ConfigMapRef.Optional}
	}
	return Reference{}
}

// variables are those that are given at one place.
type variables struct {
	// part is what they are in a recipe, where is said before what is wrong with one.
	part, where string
	env         []corev1.EnvVar
	from        []corev1.EnvFromSource
	// pod says that they may be about the pod itself.
	pod bool
}

// variablesOf are all of a stage's.
func variablesOf(s *Stage) []variables {
	out := []variables{{part: "env", env: s.Spec.Env}}
	t := s.Spec.Training
	if t == nil {
		return out
	}
	out = append(out, variables{part: "training/env", env: t.Env})
	for i := range t.Roles {
		role := &t.Roles[i]
		part, where := "training/roles/"+role.Name, "role "+role.Name+": "
		out = append(out, variables{part: part + "/env", where: where, env: role.Env})
		if role.Template == nil {
			continue
		}
		pod := &role.Template.Spec
		for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
			for k := range list {
				c := &list[k]
				out = append(out, variables{part: part + "/template/" + c.Name + "/env", where: where, env: c.Env, from: c.EnvFrom, pod: true})
			}
		}
	}
	return out
}
