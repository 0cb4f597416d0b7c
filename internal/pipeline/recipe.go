package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/data/digest"
)

// Fingerprint names something that has parts.
type Fingerprint struct {
	// ID is what counts; empty: there is none.
	ID string
	// Parts are what explanations tell apart: files of code and their digests,
	// packages and their versions. They do not count.
	Parts map[string]string
}

// Resolved is what a stage's fields mean where and when it runs.
type Resolved struct {
	// Code is the snapshot.
	Code Fingerprint
	// Environment is the lock with interpreter and platform, or the digest of an
	// image.
	Environment Fingerprint
	// Versions are those of the Secrets and ConfigMaps that variables come from, by
	// [VersionOf].
	Versions map[string]string
}

// VersionOf is under which name the version of a Secret or a ConfigMap counts.
func VersionOf(kind, name string) string { return kind + "/" + name }

// Recipe is everything beside files that a result depends on.
type Recipe struct {
	// ID names it. It is that of the parts that count.
	ID digest.ID `json:"id"`
	// Parts count: name of the part -> hash of what it is.
	Parts map[string]string `json:"parts"`
	// Detail is what explanations tell apart within parts: "code/train.py",
	// "environment/numpy" -> digest or version.
	Detail map[string]string `json:"detail,omitempty"`
}

// unimportant are fields of the spec of a TrainingJob or of its roles that cannot
// change a result: where, when and how soon it runs. Everything else counts, also
// fields that are yet to come.
var unimportant = []string{
	"queue", "priorityClassName", "topology", "expectedRunTime", "startTimeout", "resumable", "suspend",
	"backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "cleanUp", "checkpoints",
	"spread", "resources", "restartPolicy", "gpus", "gpuMemory", "gpuModels",
	// counted on their own, as resolved
	"code", "environment", "env",
}

// NewRecipe is the recipe of a stage. A variable from a Secret or ConfigMap whose
// version is not given is an error.
func NewRecipe(s *Stage, r Resolved) (*Recipe, error) {
	b := &recipeBuilder{parts: map[string]string{}, detail: map[string]string{}}
	spec := &s.Spec
	b.fingerprint("code", r.Code)
	b.fingerprint("environment", r.Environment)
	b.words("command", spec.Command)
	b.words("script", optional(spec.Script))
	b.words("args", spec.Args)
	if spec.Stdin != nil {
		b.set("stdin", strings.Join(spec.Stdin, "\n")+"\n")
	}
	b.words("mountPath", optional(spec.MountPath))
	if spec.Batch {
		b.set("batch", "true")
	}
	if err := b.env("env", spec.Env, r); err != nil {
		return nil, fmt.Errorf("stage %s: %w", s.Name, err)
	}
	if spec.Training != nil {
		if err := b.object("training", spec.Training); err != nil {
			return nil, fmt.Errorf("stage %s: %w", s.Name, err)
		}
		if err := b.env("training/env", spec.Training.Env, r); err != nil {
			return nil, fmt.Errorf("stage %s: %w", s.Name, err)
		}
		for i := range spec.Training.Roles {
			role := &spec.Training.Roles[i]
			if err := b.env("training/roles/"+role.Name+"/env", role.Env, r); err != nil {
				return nil, fmt.Errorf("stage %s: role %s: %w", s.Name, role.Name, err)
			}
		}
	}
	if spec.Spark != nil {
		b.words("spark/script", []string{spec.Spark.Script})
		b.words("spark/args", spec.Spark.Args)
	}
	recipe := &Recipe{Parts: b.parts, Detail: b.detail}
	recipe.ID = recipe.digest()
	return recipe, nil
}

// digest is the name of the parts.
func (r *Recipe) digest() digest.ID {
	h := newHash("recipe")
	for _, name := range slices.Sorted(maps.Keys(r.Parts)) {
		h.text(name)
		h.text(r.Parts[name])
	}
	return h.sum()
}

// Encode is the recipe as it is kept.
func (r *Recipe) Encode() ([]byte, error) { return json.Marshal(r) }

// DecodeRecipe reads what Encode wrote, and checks it against its name.
func DecodeRecipe(text []byte) (*Recipe, error) {
	var r Recipe
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("reading a recipe: %w", err)
	}
	if r.digest() != r.ID {
		return nil, fmt.Errorf("reading recipe %s: its parts are those of %s", r.ID.Short(), r.digest().Short())
	}
	return &r, nil
}

type recipeBuilder struct {
	parts, detail map[string]string
}

func (b *recipeBuilder) set(name, value string) {
	h := newHash("part")
	h.text(value)
	b.parts[name] = h.sum().String()
}

func optional(word string) []string {
	if word == "" {
		return nil
	}
	return []string{word}
}

// words sets a part for each word, and one for how many there are.
func (b *recipeBuilder) words(name string, words []string) {
	for i, word := range words {
		b.set(name+"/"+strconv.Itoa(i), word)
	}
}

func (b *recipeBuilder) fingerprint(name string, f Fingerprint) {
	if f.ID == "" {
		return
	}
	b.set(name, f.ID)
	for part, value := range f.Parts {
		b.detail[name+"/"+part] = value
	}
}

// env sets a part for each variable; of several of one name the last one counts.
func (b *recipeBuilder) env(name string, env []corev1.EnvVar, r Resolved) error {
	for i := range env {
		v := &env[i]
		value := "=" + v.Value
		if from := v.ValueFrom; from != nil {
			var kind, object, key string
			switch {
			case from.SecretKeyRef != nil:
				kind, object, key = "Secret", from.SecretKeyRef.Name, from.SecretKeyRef.Key
			case from.ConfigMapKeyRef != nil:
				kind, object, key = "ConfigMap", from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key
			default:
				return fmt.Errorf("variable %s: it comes from neither a Secret nor a ConfigMap: what it would be is known to no result: give a value", v.Name)
			}
			version, ok := r.Versions[VersionOf(kind, object)]
			if !ok {
				return fmt.Errorf("variable %s: %s %s, which it comes from, was not found", v.Name, kind, object)
			}
			value = strings.Join([]string{kind, object, key, version}, "\x00")
			b.detail[name+"/"+v.Name] = fmt.Sprintf("%s %s, key %s, version %s", kind, object, key, version)
		}
		b.set(name+"/"+v.Name, value)
	}
	return nil
}

// object sets a part for each field of an object that may change a result.
func (b *recipeBuilder) object(name string, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var fields any
	if err := decoder.Decode(&fields); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	b.fields(name, fields)
	return nil
}

func (b *recipeBuilder) fields(name string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for field, inner := range v {
			if !slices.Contains(unimportant, field) {
				b.fields(name+"/"+field, inner)
			}
		}
	case []any:
		for i, inner := range v {
			part := strconv.Itoa(i)
			if m, ok := inner.(map[string]any); ok {
				if n, ok := m["name"].(string); ok {
					part = n
				}
			}
			b.fields(name+"/"+part, inner)
		}
	default:
		b.set(name, fmt.Sprint(v))
	}
}
