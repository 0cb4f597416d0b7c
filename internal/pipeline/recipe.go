package pipeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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
	// [VersionOf]: what the API server says, or [DeclaredVersion].
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
	// "environment/numpy" -> digest or version; and what words of commands and fields of
	// a training are: "args/1" -> "--epochs=3". Recipes of before have none of these.
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
	if s.Pachyderm() {
		b.show("variables", "of Pachyderm 2") // earlier results were computed without them
	}
	if spec.Batch {
		b.set("batch", "true")
	}
	if spec.Training != nil {
		if err := b.object("training", spec.Training); err != nil {
			return nil, fmt.Errorf("stage %s: %w", s.Name, err)
		}
	}
	for _, v := range variablesOf(s) {
		if err := b.env(&v, r); err != nil {
			return nil, fmt.Errorf("stage %s: %s%w", s.Name, v.where, err)
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

// shown is how much of a value explanations show.
const shown = 200

// show sets a part whose value may be shown to whoever may read the results.
func (b *recipeBuilder) show(name, value string) {
	b.set(name, value)
	if len(value) > shown {
		value = strings.ToValidUTF8(value[:shown], "") + "..."
	}
	b.detail[name] = value
}

// words sets a part for each word.
func (b *recipeBuilder) words(name string, words []string) {
	for i, word := range words {
		b.show(name+"/"+strconv.Itoa(i), word)
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
func (b *recipeBuilder) env(in *variables, r Resolved) error {
	for i := range in.env {
		v := &in.env[i]
		value := "=" + v.Value
		ref, ok := referenceOf(v)
		switch {
		case ok:
			version, there := r.Versions[VersionOf(ref.Kind, ref.Name)]
			if !there && !ref.Optional {
				return fmt.Errorf("variable %s: %s %s, which it comes from, was not found", v.Name, ref.Kind, ref.Name)
			}
			value = strings.Join([]string{ref.Kind, ref.Name, ref.key, version}, "\x00")
			b.detail[in.part+"/"+v.Name] = fmt.Sprintf("%s %s, key %s, %s", ref.Kind, ref.Name, ref.key, cmp.Or(wordVersion(version), "which is not there"))
		case v.ValueFrom != nil && !in.pod:
			return fmt.Errorf("variable %s: it comes from neither a Secret nor a ConfigMap: what it would be is known to no result: give a value", v.Name)
		case v.ValueFrom != nil:
			text, err := json.Marshal(v.ValueFrom)
			if err != nil {
				return fmt.Errorf("variable %s: %w", v.Name, err)
			}
			value = "of its pod\x00" + string(text)
		}
		b.set(in.part+"/"+v.Name, value)
	}
	for i := range in.from {
		ref := groupOf(&in.from[i])
		if ref.Name == "" {
			continue
		}
		version, there := r.Versions[VersionOf(ref.Kind, ref.Name)]
		if !there && !ref.Optional {
			return fmt.Errorf("envFrom: %s %s was not found", ref.Kind, ref.Name)
		}
		b.set(in.part+"From/"+ref.Kind+"/"+ref.Name, version)
		b.detail[in.part+"From/"+ref.Kind+"/"+ref.Name] = cmp.Or(wordVersion(version), "which is not there")
	}
	return nil
}

// declared begins a version that an object says of itself. One that the API server gave
// begins otherwise: with a UID.
const declared = "declared "

// DeclaredVersion is the version of a Secret or a ConfigMap that says by what name its
// values count. Two that say the same count as one, wherever they are.
func DeclaredVersion(name string) string { return declared + name }

// wordVersion is a version as explanations have it; empty: there is none.
func wordVersion(version string) string {
	if version == "" || strings.HasPrefix(version, declared) {
		return version
	}
	return "version " + version
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
		b.show(name, fmt.Sprint(v))
	}
}
