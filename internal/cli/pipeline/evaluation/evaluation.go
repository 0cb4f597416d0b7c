package evaluation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// Verb is the hidden verb of `muster pipeline` for the child process.
	Verb = "evaluate"
	// Most is the time limit of an evaluation.
	Most = 10 * time.Second
	// mostOutput limits the result of a file, and mostWords an error message, in bytes.
	mostOutput = 4 << 20
	mostWords  = 64 << 10
)

// request is the request to the child process, on its standard input.
type request struct {
	// Folder holds the file of this name, and all files that it may import.
	Folder string `json:"folder"`
	Name   string `json:"name"`
	// Args are arguments of the function that the file is, by their names.
	Args map[string]string `json:"args,omitempty"`
}

// Is reports whether a file is one of Jsonnet, by its name.
func Is(file string) bool {
	return strings.HasSuffix(file, ".jsonnet") || strings.HasSuffix(file, ".libsonnet")
}

// Evaluate returns the result of a file, as JSON. Args are written as name=value.
func Evaluate(ctx context.Context, file string, args []string) ([]byte, error) {
	q := request{Folder: filepath.Dir(file), Name: filepath.Base(file), Args: map[string]string{}}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--arg %s: give name=value", arg)
		}
		if _, twice := q.Args[name]; twice {
			return nil, fmt.Errorf("--arg %s is given twice", name)
		}
		q.Args[name] = value
	}
	text, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, which evaluates: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, Most, errTime)
	defer cancel()
	out, said := &limited{most: mostOutput, full: cancel}, &limited{most: mostWords, full: func() {}}
	cmd := exec.CommandContext(ctx, program, "pipeline", Verb)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), out, said
	err = cmd.Run()
	switch words := strings.TrimSpace(strings.ToValidUTF8(said.kept.String(), "")); {
	case out.over:
		return nil, fmt.Errorf("its result is larger than %d MiB", mostOutput>>20)
	case errors.Is(context.Cause(ctx), errTime):
		return nil, fmt.Errorf("evaluating it takes longer than %s", Most)
	case err != nil && strings.Contains(words, crash):
		return nil, fmt.Errorf("evaluating it takes more than %d MiB of memory", mostMemory>>20)
	case err != nil && words != "":
		return nil, errors.New(words)
	case err != nil:
		return nil, fmt.Errorf("evaluating it: %w", err)
	}
	return out.kept.Bytes(), nil
}

var errTime = errors.New("out of time")

// crash is part of the output of Go's runtime without memory; the exit status varies, and may be a
// signal.
const crash = "\ngoroutine "

// limited is a buffer with a limit.
type limited struct {
	kept bytes.Buffer // not embedded: io.Copy would fill it past the limit by its ReadFrom
	most int
	over bool
	full func()
}

// Write implements [io.Writer].
func (l *limited) Write(p []byte) (int, error) {
	if keep := l.most - l.kept.Len(); len(p) > keep {
		if !l.over {
			l.over = true
			l.kept.Write(p[:keep])
			l.full()
		}
		return len(p), nil
	}
	return l.kept.Write(p)
}
