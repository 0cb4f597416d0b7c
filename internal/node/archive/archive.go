package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Archive is a folder of kept logs. Its methods may be called concurrently.
type Archive struct {
	root string
	mu   sync.Mutex
}

// New returns the archive in a folder, which is made when it is needed.
func New(root string) *Archive { return &Archive{root: root} }

// Pod is whose logs are kept.
type Pod struct {
	Namespace string
	// Job is the UID of the TrainingJob.
	Job string
	// Name is the pod's name.
	Name string
	// UID tells pods of the same name apart.
	UID string
}

// Log is the log of one attempt of a container.
type Log struct {
	Container string
	Restart   int
	// Dir is the folder that holds it.
	Dir string
}

// uidName is the file that says which pod a folder is of.
const uidName = "uid"

// Keep moves logs into the archive. It may be repeated: what was moved already
// stays.
func (a *Archive) Keep(pod Pod, logs []Log) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(logs) == 0 {
		return nil
	}
	folder, err := a.folder(pod)
	if err != nil {
		return fmt.Errorf("making the archive of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	var errs []error
	for _, log := range logs {
		target := filepath.Join(folder, log.Container, strconv.Itoa(log.Restart))
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := os.Rename(log.Dir, target); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("moving the logs of container %s: %w", log.Container, err))
		}
	}
	return errors.Join(errs...)
}

// folder finds or makes the folder of a pod.
func (a *Archive) folder(pod Pod) (string, error) {
	base := filepath.Join(a.root, pod.Namespace, pod.Job, pod.Name)
	for n := 1; ; n++ {
		folder := base
		if n > 1 {
			folder = base + "." + strconv.Itoa(n)
		}
		owner, err := os.ReadFile(filepath.Join(folder, uidName))
		switch {
		case err == nil && string(owner) == pod.UID:
			return folder, nil
		case err == nil:
			continue
		case !errors.Is(err, os.ErrNotExist):
			return "", err
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return "", err
		}
		return folder, os.WriteFile(filepath.Join(folder, uidName), []byte(pod.UID), 0o600)
	}
}

// Entry is one kept log.
type Entry struct {
	// Pod is the pod's name; Sequence counts pods of that name, from 1.
	Pod      string
	Sequence int
	// Container and Restart say which attempt.
	Container string
	Restart   int
	// Dir is the folder, for process.OpenLogs.
	Dir string
}

// List returns the kept logs of a job, by pod, sequence, container and
// restart.
func (a *Archive) List(namespace, job string) ([]Entry, error) {
	folder := filepath.Join(a.root, namespace, job)
	matches, err := filepath.Glob(filepath.Join(escape(folder), "*", "*", "*"))
	if err != nil {
		return nil, fmt.Errorf("listing kept logs: %w", err)
	}
	var entries []Entry
	for _, dir := range matches {
		restart, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		e := Entry{Container: filepath.Base(filepath.Dir(dir)), Restart: restart, Dir: dir, Sequence: 1}
		e.Pod = filepath.Base(filepath.Dir(filepath.Dir(dir)))
		if i := strings.LastIndexByte(e.Pod, '.'); i >= 0 {
			if n, err := strconv.Atoi(e.Pod[i+1:]); err == nil {
				e.Pod, e.Sequence = e.Pod[:i], n
			}
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(x, y Entry) int {
		if c := strings.Compare(x.Pod, y.Pod); c != 0 {
			return c
		}
		if x.Sequence != y.Sequence {
			return x.Sequence - y.Sequence
		}
		if c := strings.Compare(x.Container, y.Container); c != 0 {
			return c
		}
		return x.Restart - y.Restart
	})
	return entries, nil
}

// escape makes a path safe to be part of a pattern.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Drop removes all logs of a job.
func (a *Archive) Drop(namespace, job string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if job == "" || strings.ContainsAny(job, "/.") {
		return fmt.Errorf("dropping the archive of job %q: not a UID", job)
	}
	if err := os.RemoveAll(filepath.Join(a.root, namespace, job)); err != nil {
		return fmt.Errorf("dropping the archive of job %s: %w", job, err)
	}
	// The namespace's folder goes with its last job.
	_ = os.Remove(filepath.Join(a.root, namespace))
	return nil
}

// Jobs returns the UIDs of the jobs that have kept logs, by namespace.
func (a *Archive) Jobs() (map[string][]string, error) {
	namespaces, err := os.ReadDir(a.root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the archive: %w", err)
	}
	jobs := map[string][]string{}
	for _, namespace := range namespaces {
		entries, err := os.ReadDir(filepath.Join(a.root, namespace.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the archive: %w", err)
		}
		for _, entry := range entries {
			jobs[namespace.Name()] = append(jobs[namespace.Name()], entry.Name())
		}
	}
	return jobs, nil
}
