package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/person"
	"github.com/muster-dev/muster/internal/cli/suggestion"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/source"
)

// maxRequirements is the size of the largest requirements file that a
// TrainingJob can hold.
const maxRequirements = 65536

// noCode is the value of --code for members that need no files.
const noCode = "none"

// prepare reads what the flags refer to, everything but the code itself.
func (o *options) prepare() (Inputs, error) {
	in := Inputs{Namespace: o.factory.NamespaceOr("default"), Submitter: person.Name(), Suffix: suffix(), Getenv: os.LookupEnv}
	var err error
	if isFolder(o.flags.Python) {
		if in.PythonPath, err = environmentFolder(o.flags.Python); err != nil {
			return in, err
		}
	}
	folder, script, err := o.locate()
	if err != nil {
		return in, err
	}
	if in.Requirements, err = readRequirements(folder, o.flags.Requirements); err != nil {
		return in, err
	}
	in.Script, in.Folder = script, filepath.Base(folder)
	if folder == "" && len(o.flags.Command) > 0 {
		in.Folder = filepath.Base(o.flags.Command[0])
	}
	// The digest is not known before everything else is known to be right.
	return in, nil
}

// locate returns the code folder, "" for none, and --script's path in it.
func (o *options) locate() (folder, script string, err error) {
	if isURL(o.flags.Script) || o.flags.Code == noCode && o.flags.Script == "" {
		return "", "", nil
	}
	folder = o.flags.Code
	if folder == "" {
		folder = "."
		if o.flags.Script != "" {
			folder = filepath.Dir(o.flags.Script)
		}
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return "", "", fmt.Errorf("finding the code folder: %w", err)
	}
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.flags.Code != "":
		return "", "", exit.NotFound("--code %s: there is no such folder%s", o.flags.Code, nearby(folder))
	case errors.Is(err, fs.ErrNotExist):
		return "", "", exit.NotFound("--script %s: there is no such file", o.flags.Script)
	case err != nil:
		return "", "", fmt.Errorf("reading the code folder: %w", err)
	case !info.IsDir():
		return "", "", exit.Usage("--code %s: give a folder; for one file give --script %s", o.flags.Code, o.flags.Code)
	}
	if o.flags.Script == "" {
		return folder, "", checkCommand(folder, o.flags.Command)
	}
	script, err = scriptIn(folder, o.flags.Script)
	return folder, script, err
}

// scriptIn returns the script's path relative to the code folder. It may be
// given relative to this folder or to the code folder.
func scriptIn(folder, script string) (string, error) {
	candidates := []string{script, filepath.Join(folder, script)}
	for _, candidate := range candidates {
		info, err := os.Stat(candidate)
		if err != nil {
			continue
		}
		if info.IsDir() {
			return "", exit.Usage("--script %s: this is a folder: give the script to run in it, or --code %s and a command", script, script)
		}
		absolute, err := filepath.Abs(candidate)
		if err != nil {
			return "", fmt.Errorf("finding the script: %w", err)
		}
		relative, err := filepath.Rel(folder, absolute)
		if err != nil || relative == ".." || strings.HasPrefix(relative, "../") {
			return "", exit.Usage("--script %s: it is not in the code folder %s: give a --code folder that holds it", script, folder)
		}
		return filepath.ToSlash(relative), nil
	}
	absolute, err := filepath.Abs(script)
	if err != nil {
		return "", fmt.Errorf("finding the script: %w", err)
	}
	return "", exit.NotFound("--script %s: there is no such file%s", script, nearby(absolute))
}

// checkCommand refuses a command whose script is not there: it would only be
// found out once GPUs are held.
func checkCommand(folder string, command []string) error {
	if len(command) > 0 && forgotten(folder, command[0]) {
		return exit.Usage("%s: this is a script, not a program: give --script %s, or its interpreter, as in `muster run -- python %s`",
			command[0], command[0], command[0])
	}
	script := scriptOf("", command)
	if script == "" || filepath.IsAbs(script) || strings.Contains(script, "$(") {
		return nil
	}
	path := filepath.Join(folder, script)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return exit.NotFound("%s: there is no such file in the code folder %s%s", script, folder, nearby(path))
	}
	return nil
}

// forgotten reports whether a command begins with a script of the code folder
// that would not be found as a program.
func forgotten(folder, program string) bool {
	if strings.Contains(program, "/") || !strings.HasSuffix(program, ".py") {
		return false
	}
	if _, err := exec.LookPath(program); err == nil {
		return false
	}
	info, err := os.Stat(filepath.Join(folder, program))
	return err == nil && info.Mode().IsRegular()
}

// nearby proposes the name in path's folder that is nearest to it.
func nearby(path string) string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return ""
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return suggestion.Phrase(filepath.Base(path), names)
}

// readRequirements reads a requirements file with all files that it includes, and checks
// every line before a job is made of it. The files are in the code folder, or beside a
// file that is not in it.
func readRequirements(folder, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", exit.NotFound("--requirements %s: there is no such file%s", path, nearby(path))
	} else if err == nil && info.IsDir() {
		return "", exit.Usage("--requirements %s: this is a folder: give a requirements file", path)
	}
	within, name, err := inFolder(folder, path)
	if err != nil {
		return "", fmt.Errorf("reading the requirements: %w", err)
	}
	root, err := os.OpenRoot(within)
	if err != nil {
		return "", fmt.Errorf("reading the requirements: %w", err)
	}
	defer func() { _ = root.Close() }()
	text, err := environment.Gather(root, name, maxRequirements)
	if err == nil {
		_, err = environment.Normalise(text)
	}
	if err == nil {
		err = environment.Password(text)
	}
	switch {
	case err != nil:
		return "", exit.Usage("--requirements %s: %v", path, err)
	case strings.TrimSpace(text) == "":
		return "", exit.Usage("--requirements %s: the file is empty: leave the flag out to use the machine's own Python", path)
	}
	return text, nil
}

// inFolder returns the folder whose files a requirements file may include, and its path
// there: the code folder if the file is in it, else the file's own.
func inFolder(folder, path string) (within, name string, err error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", "", err
	}
	if absolute, err = filepath.EvalSymlinks(absolute); err != nil {
		return "", "", err
	}
	if folder != "" {
		if folder, err = filepath.EvalSymlinks(folder); err != nil {
			return "", "", err
		}
		if relative, err := filepath.Rel(folder, absolute); err == nil && filepath.IsLocal(relative) {
			return folder, filepath.ToSlash(relative), nil
		}
	}
	return filepath.Dir(absolute), filepath.Base(absolute), nil
}

// environmentFolder returns the absolute folder of a Python environment.
func environmentFolder(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("finding the environment: %w", err)
	}
	if _, err := os.Stat(absolute); err != nil {
		return "", exit.NotFound("--python %s: there is no such folder; give that of a virtual or conda environment, or a version such as 3.11%s", path, nearby(absolute))
	}
	if _, err := os.Stat(filepath.Join(absolute, "bin", "python")); err != nil {
		return "", exit.Usage("--python %s: this is no virtual or conda environment: it has no bin/python", path)
	}
	return absolute, nil
}

// snapshot stores the code of a job and returns its digest; "" for a job without code.
func (o *options) snapshot(ctx context.Context, job *v1alpha1.TrainingJob) (string, error) {
	folder, _, err := o.locate()
	if err != nil || folder == "" {
		return "", err
	}
	home, err := o.factory.DataFolder()
	if err != nil {
		return "", err
	}
	store, err := o.codeStore()
	if err != nil {
		return "", err
	}
	progress := terminal.NewProgress(o.factory.Streams.Err, "Storing the code", terminal.Bytes)
	defer progress.Stop()
	_, embedded, unknown := o.factory.EmbeddedHome() // unknown: a dry run without any Muster
	links := &outside{job: job, everything: o.flags.Image == "" && (embedded || unknown != nil)}
	result, err := store.Snapshot(ctx, folder, source.Options{Without: home, Outside: links.check, Progress: func(p source.Progress) {
		progress.Set(p.Bytes, p.TotalBytes)
		progress.Say(fmt.Sprintf("file %d of %d", p.Files, p.TotalFiles))
	}})
	if err != nil {
		return "", fmt.Errorf("%w (a folder with only the code is given by --code FOLDER; a job that needs no files, by --code none)", err)
	}
	progress.Stop()
	return result.Digest, links.tell(o.factory.Streams.Err)
}

// codeStore is the store of snapshots in the data folder. On the way to a
// cluster it remembers what was read, so that what is unchanged is not read
// again.
func (o *options) codeStore() (*source.Store, error) {
	home, err := o.factory.DataFolder()
	if err != nil {
		return nil, err
	}
	return source.Open(filepath.Join(home, "code"))
}

// suffix is five random letters and digits.
func suffix() string { return strings.ToLower(rand.Text()[:5]) }
