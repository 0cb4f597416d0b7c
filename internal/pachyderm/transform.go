package pachyderm

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// The most that a stage takes.
const (
	maxWords    = 256
	maxLines    = 1024
	maxLine     = 4096
	maxVariable = 256
)

var variableName = regexp.MustCompile(`^[-._a-zA-Z][-._a-zA-Z0-9]*$`)

// theirVariables are variables of Pachyderm's workers, and ourVariables those of them that
// are set here, too (package foreman/worker).
var (
	theirVariables = regexp.MustCompile(`\b(?:PACHD?|PPS)_[-A-Za-z0-9_]+|\bS3_ENDPOINT\b`)
	ourVariables   = regexp.MustCompile(`^PACH_(?:JOB_ID|OUTPUT_COMMIT_ID|DATUM_ID|DATUM_.+_(?:JOIN_ON|GROUP_BY))$`)
)

// transform sets the program and what it is given.
func (c *conversion) transform(m *message, stage *v1alpha1.Stage) {
	t := m.message("transform", transformShape)
	if t == nil {
		if m.spelled["tf_job"] == "" {
			c.refuse("transform", "give the program to run, as cmd, and its image")
		}
		return
	}
	if image := t.text("image"); image != "" {
		stage.Environment = &v1alpha1.Environment{Image: image}
	} else {
		c.note(t.field("image"), "there is none: the program runs with the machine's own files and python3; on a cluster, name one")
	}
	c.command(t, stage)
	c.variables(t, stage)
	c.failure(t, stage)
}

// command sets the program, its arguments and its standard input. Folder and
// return codes are seen to by a shell around it.
func (c *conversion) command(t *message, stage *v1alpha1.Stage) {
	words := t.texts("cmd")
	if len(words) == 0 {
		c.refuse(t.field("cmd"), "give the program and its arguments: what the image would start by itself is not looked up")
		return
	}
	stage.Stdin = t.texts("stdin")
	c.lines(t, "cmd", words, maxWords, 1<<17)
	c.lines(t, "stdin", stage.Stdin, maxLines, maxLine)
	c.mentions(t, slices.Concat(words, stage.Stdin))
	folder, codes := t.text("working_dir"), c.codes(t)
	stage.Command = wrap(escape(words), folder, codes)
	if len(stage.Command) > maxWords {
		c.refuse(t.field("cmd"), "has %d words, with the shell that workingDir and acceptReturnCode need: give at most %d", len(stage.Command), maxWords)
	}
	const shell = "is done by a shell around the program: the image needs /bin/sh"
	if folder != "" {
		c.note(t.field("working_dir"), shell)
	}
	if len(codes) > 0 {
		c.note(t.field("accept_return_code"), shell)
	}
}

// mentions notes variables of Pachyderm's workers that texts mention and that are not set here.
func (c *conversion) mentions(t *message, texts []string) {
	noted := map[string]bool{}
	for _, text := range texts {
		for _, found := range theirVariables.FindAllString(text, -1) {
			if !noted[found] && !ourVariables.MatchString(found) {
				c.note(t.path, "mentions %s, which is not set here", short(found))
			}
			noted[found] = true
		}
	}
}

// lines refuses too many and too long texts.
func (c *conversion) lines(t *message, name string, lines []string, most, longest int) {
	if len(lines) > most {
		c.refuse(t.field(name), "has %d entries: give at most %d; put a script into the image", len(lines), most)
	}
	for i, line := range lines {
		at := fmt.Sprintf("%s[%d]", t.field(name), i)
		if len(line) > longest {
			c.refuse(at, "has %d bytes: give at most %d; put a script into the image", len(line), longest)
		}
		if strings.ContainsRune(line, 0) {
			c.refuse(at, "holds a NUL, which no program can be given")
		}
	}
}

// codes are the return codes that count as success beside 0.
func (c *conversion) codes(t *message) []int64 {
	var out []int64
	for i, value := range t.list("accept_return_code") {
		code := c.whole(fmt.Sprintf("%s[%d]", t.field("accept_return_code"), i), value, 0, 255)
		if code != 0 && !slices.Contains(out, code) {
			out = append(out, code)
		}
	}
	return out
}

// escape keeps $(NAME) as it is, which would be taken for a variable: Pachyderm
// gives words to the program as they are.
func escape(words []string) []string {
	out := make([]string, len(words))
	for i, word := range words {
		if strings.Contains(word, "$(") || strings.Contains(word, "$$") {
			word = strings.ReplaceAll(word, "$", "$$")
		}
		out[i] = word
	}
	return out
}

// wrap has a shell start the program in a folder, and end with 0 where the
// program ended with one of the codes. What the program is given on its standard
// input it gets as before, because the shell does not read it.
func wrap(words []string, folder string, codes []int64) []string {
	if folder == "" && len(codes) == 0 {
		return words
	}
	script, shell := "", []string{"/bin/sh", "-c", "", "sh"}
	if folder != "" {
		script = `cd "$1" || exit; shift; `
		shell = append(shell, escape([]string{folder})...)
	}
	if len(codes) == 0 {
		script += `exec "$@"`
	} else {
		accepted := make([]string, len(codes))
		for i, code := range codes {
			accepted[i] = fmt.Sprint(code)
		}
		script += `"$@"; code=$?; case $code in ` + strings.Join(accepted, "|") + `) exit 0;; esac; exit $code`
	}
	shell[2] = script
	return append(shell, words...)
}

// variables sets env and what comes from secrets.
func (c *conversion) variables(t *message, stage *v1alpha1.Stage) {
	env := t.table("env")
	for _, name := range slices.Sorted(maps.Keys(env)) {
		c.variable(t.field("env")+"."+name, name)
		stage.Env = append(stage.Env, corev1.EnvVar{Name: name, Value: env[name]})
	}
	for _, s := range t.messages("secrets", secretShape) {
		secret, key, variable := s.text("name"), s.text("key"), s.text("env_var")
		switch {
		case s.spelled["mount_path"] != "": // refused already
			continue
		case secret == "" || key == "" || variable == "":
			c.refuse(s.path, "give name (of the Secret), key (in it) and env_var (the variable)")
			continue
		}
		c.variable(s.field("env_var"), variable)
		if _, twice := env[variable]; twice {
			c.refuse(s.field("env_var"), "%s is in env as well: give one of them", variable)
		}
		stage.Env = append(stage.Env, corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key,
		}}})
	}
	if len(stage.Env) > maxVariable {
		c.refuse(t.field("env"), "there are %d variables: give at most %d", len(stage.Env), maxVariable)
	}
}

func (c *conversion) variable(at, name string) {
	if !variableName.MatchString(name) {
		c.refuse(at, "%s cannot be the name of a variable, which has letters, digits, '_', '-' and '.', no digit first", describe(name))
	}
}

// failure sets what becomes of a datum that failed: in Pachyderm one whose
// err_cmd succeeds is left out, and the job goes on.
func (c *conversion) failure(t *message, stage *v1alpha1.Stage) {
	words := t.texts("err_cmd")
	lines := t.texts("err_stdin")
	switch {
	case len(words) == 0 && len(lines) > 0:
		c.refuse(t.field("err_stdin"), "is given without err_cmd")
	case len(words) == 0:
	case succeeds(words, lines):
		stage.OnFailure = v1alpha1.FailSkip
	default:
		c.refuse(t.field("err_cmd"), "no other program is run for datums that failed: give [\"true\"] to leave them out and go on, or make a Pipeline with `onFailure: Collect`, which keeps their files and logs in the output")
	}
}

// succeeds says whether an error command does nothing but succeed.
func succeeds(words, lines []string) bool {
	nothing := []string{"true", "/bin/true", "/usr/bin/true", ":", "exit 0"}
	shells := []string{"sh", "bash", "/bin/sh", "/bin/bash"}
	switch {
	case len(words) == 1 && len(lines) == 0:
		return slices.Contains(nothing[:3], words[0])
	case len(words) == 1 && len(lines) == 1:
		return slices.Contains(shells, words[0]) && slices.Contains(nothing, strings.TrimSpace(lines[0]))
	case len(words) == 3 && len(lines) == 0:
		return slices.Contains(shells, words[0]) && words[1] == "-c" && slices.Contains(nothing, strings.TrimSpace(words[2]))
	}
	return false
}
