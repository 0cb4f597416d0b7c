package configuration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// HostImage names the machine itself as an image: its own Python.
const HostImage = "muster.dev/host"

// HostEnvironment is the environment by which a mapping names the machine itself.
const HostEnvironment = "host"

// Image is the replacement of an image on this machine. In a file it is an object, or its
// environment alone.
type Image struct {
	// Environment is the folder of a virtual or conda environment, or "host" for the
	// machine's own programs.
	Environment string `json:"environment"`
	// Entrypoint and Command are the program of a container that names no command, by the rules of
	// images: a container's command replaces both, its args replace Command.
	Entrypoint []string `json:"entrypoint,omitempty"`
	Command    []string `json:"command,omitempty"`
	// Env sets variables; those of a container come first.
	Env map[string]string `json:"env,omitempty"`
	// WorkingDir is the folder of a container that names none.
	WorkingDir string `json:"workingDir,omitempty"`
}

// UnmarshalJSON reads an object, or a string for the environment alone.
func (i *Image) UnmarshalJSON(text []byte) error {
	*i = Image{}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte(`"`)) {
		return json.Unmarshal(text, &i.Environment)
	}
	type plain Image
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode((*plain)(i)); err != nil {
		return fmt.Errorf("images: give an environment, or an object with environment, entrypoint, command, env and workingDir: %w", err)
	}
	return nil
}

// Folder is the folder of the environment; empty: the machine's own programs.
func (i Image) Folder() string {
	if i.Environment == HostEnvironment {
		return ""
	}
	return i.Environment
}

// Variables are those of Env, as NAME=value, in the order of names.
func (i Image) Variables() []string {
	out := make([]string, 0, len(i.Env))
	for _, name := range slices.Sorted(maps.Keys(i.Env)) {
		out = append(out, name+"="+i.Env[name])
	}
	return out
}

func (i Image) validate() error {
	switch {
	case i.Environment != HostEnvironment && !filepath.IsAbs(i.Environment):
		return fmt.Errorf("%q is neither an absolute folder of an environment nor host", i.Environment)
	case i.WorkingDir != "" && !filepath.IsAbs(i.WorkingDir):
		return fmt.Errorf("workingDir %q: give an absolute path", i.WorkingDir)
	}
	for name, value := range i.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf("env: %q: a name has at least one character and no =, and neither name nor value has a NUL", name)
		}
	}
	for _, word := range slices.Concat(i.Entrypoint, i.Command) {
		if strings.Contains(word, "\x00") {
			return fmt.Errorf("entrypoint and command: %q has a NUL, which no argument may have", word)
		}
	}
	return nil
}

// Images maps patterns to the replacements of images on this machine. A pattern is the name of
// an image in which * stands for any characters.
type Images map[string]Image

// NotRun returns the message for an image that is not mapped and that this machine cannot run.
func NotRun(image, why string) string {
	return fmt.Sprintf("this machine cannot run the image %q: %s. Or map it to a Python environment or the machine's own programs in config.yaml: images: {%q: /path/of/a/venv} or images: {%q: host}, and start Muster again", image, why, image, image)
}

// Patterns are the patterns of m, in order.
func (m Images) Patterns() []string { return slices.Sorted(maps.Keys(m)) }

func (m Images) validate() error {
	for _, image := range slices.Sorted(maps.Keys(m)) {
		if strings.Contains(strings.TrimSuffix(image, "*"), "*") {
			return fmt.Errorf("images: %q: a * may stand only at the end", image)
		}
		if err := m[image].validate(); err != nil {
			return fmt.Errorf("images: %q: %w", image, err)
		}
	}
	return nil
}

// Find returns the replacement of an image, and false if the image is not mapped. The longest
// pattern that matches counts.
func (m Images) Find(image string) (Image, bool) {
	if image == HostImage || strings.HasPrefix(image, HostImage+":") {
		return Image{Environment: HostEnvironment}, true
	}
	best := ""
	for pattern := range m {
		if matches(pattern, image) && (best == "" || len(pattern) > len(best) || (len(pattern) == len(best) && pattern < best)) {
			best = pattern
		}
	}
	return m[best], best != ""
}

// matches compares an image with a pattern, in full and without the default
// registry's name.
func matches(pattern, image string) bool {
	short := strings.TrimPrefix(strings.TrimPrefix(image, "docker.io/"), "library/")
	for _, name := range []string{image, short} {
		if glob(pattern, name) {
			return true
		}
		if !strings.Contains(path.Base(name), ":") && glob(pattern, name+":latest") {
			return true
		}
	}
	return false
}

// glob matches s against a pattern in which * stands for any characters.
func glob(pattern, s string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	if !strings.HasPrefix(s, head) {
		return false
	}
	for s = s[len(head):]; ; s = s[1:] {
		if glob(rest, s) {
			return true
		}
		if s == "" {
			return false
		}
	}
}
