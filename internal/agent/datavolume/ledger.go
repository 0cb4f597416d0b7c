package datavolume

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/osfile"
)

// volume is what a pod asked for, and its record.
type volume struct {
	Namespace string `json:"namespace"`
	// Pod is the pod's UID.
	Pod string `json:"pod"`
	// Commit and Path are which part it is, and Key is its name in a cache; empty: it
	// is not known yet.
	Commit string `json:"commit"`
	Path   string `json:"path,omitempty"`
	Key    string `json:"key,omitempty"`
	// Words are what people call it.
	Words  string `json:"words,omitempty"`
	Target string `json:"target"`
	// Lazy says that it is mounted, and not fetched; Desk that it is no part of a commit,
	// but the folder of the program that serves the pod's mounts.
	Lazy bool `json:"lazy,omitempty"`
	Desk bool `json:"desk,omitempty"`
	// Boot is in which of the machine's lives it was mounted, and Mounted when; zero:
	// it is not mounted.
	Boot    string    `json:"boot,omitempty"`
	Mounted time.Time `json:"mounted,omitzero"`
}

var (
	hashes = regexp.MustCompile(`^[0-9a-f]{64}$`)
	names  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// longest is how long what people call a part, and its path, may be.
const (
	longestWords = 300
	longestPath  = 4096
)

// check refuses what cannot be.
func (v *volume) check() error {
	if !names.MatchString(v.Namespace) || !names.MatchString(v.Pod) {
		return fmt.Errorf("the pod's namespace is %q and its UID %q: does the CSIDriver object say podInfoOnMount?", v.Namespace, v.Pod)
	}
	if v.Desk {
		return nil
	}
	return v.checkPart()
}

// checkPart refuses what is no part of a commit.
func (v *volume) checkPart() error {
	switch {
	case !hashes.MatchString(v.Commit):
		return fmt.Errorf("the attribute commit is %q: give the 64 digits of a commit of a dataset", v.Commit)
	case v.Key != "" && !hashes.MatchString(v.Key):
		return fmt.Errorf("the attribute key is %q: leave it out, or give what status.data of the job says", v.Key)
	case len(v.Path) > longestPath:
		return fmt.Errorf("the attribute path has %d bytes, and at most %d are taken", len(v.Path), longestPath)
	case !names.MatchString(v.Namespace):
		return fmt.Errorf("the namespace is %q", v.Namespace)
	}
	return nil
}

// part names what is fetched for a volume, and for all like it.
func (v *volume) part() string {
	switch {
	case v.Desk:
		return "desk\n" + v.Pod
	case v.Lazy:
		return "mount\n" + v.Target
	}
	return v.Namespace + "\n" + v.Commit + "\n" + strings.Trim(path.Clean("/"+v.Path), "/")
}

// called is what people call it.
func (v *volume) called() string {
	if v.Words != "" {
		return v.Words
	}
	return "commit " + v.Commit[:8] + ":/" + strings.Trim(path.Clean("/"+v.Path), "/")
}

// ledger has the records of all volumes of the node, by their handles.
type ledger struct {
	dir string

	mu  sync.Mutex
	all map[string]volume
}

// openLedger reads what earlier agents wrote. What was mounted in an earlier life of
// the machine is not any more.
func openLedger(dir, boot string) (*ledger, error) {
	if err := osfile.MakeFolder(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of records: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the records of volumes: %w", err)
	}
	l := &ledger{dir: dir, all: map[string]volume{}}
	for _, e := range entries {
		handle, is := strings.CutSuffix(e.Name(), ".json")
		if !is {
			_ = os.Remove(filepath.Join(dir, e.Name())) // of a crash
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		var v volume
		if err == nil {
			err = json.Unmarshal(raw, &v)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the record of volume %s: %w", handle, err)
		}
		if v.Boot != boot {
			v.Mounted = time.Time{}
		}
		l.all[handle] = v
	}
	return l, nil
}

// note records a volume as it is now; what is known of it already, or of another with
// the same part, stays known.
func (l *ledger) note(handle string, v volume) (volume, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, known := l.all[handle]; known && before.part() == v.part() {
		if v.Mounted.IsZero() {
			v.Mounted = before.Mounted
		}
		if v.Key == "" {
			v.Key = before.Key
		}
	}
	for _, other := range l.all {
		if v.Key == "" && other.part() == v.part() {
			v.Key = other.Key
		}
	}
	return v, l.write(handle, v)
}

// write writes a record, which survives a loss of power. The lock is held.
func (l *ledger) write(handle string, v volume) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("recording volume %s: %w", handle, err)
	}
	if err := osfile.Replace(filepath.Join(l.dir, handle+".json"), raw, 0o600); err != nil {
		return fmt.Errorf("recording volume %s: %w", handle, err)
	}
	l.all[handle] = v
	return nil
}

// learn notes the key of a part in the records of all volumes with it.
func (l *ledger) learn(part, key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for handle, v := range l.all {
		if v.part() != part || v.Key == key {
			continue
		}
		v.Key = key
		if err := l.write(handle, v); err != nil {
			return err
		}
	}
	return nil
}

// forget removes a record; known is false where there was none, and wanted is true
// where another volume has the same part.
func (l *ledger) forget(handle string) (v volume, known, wanted bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, known = l.all[handle]
	if !known {
		return v, false, true, nil
	}
	if err := os.Remove(filepath.Join(l.dir, handle+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return v, true, true, fmt.Errorf("forgetting volume %s: %w", handle, err)
	}
	delete(l.all, handle)
	for _, other := range l.all {
		wanted = wanted || other.part() == v.part()
	}
	return v, true, wanted, nil
}

// get is one record.
func (l *ledger) get(handle string) (volume, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, known := l.all[handle]
	return v, known
}

// with are the volumes that a part is for, by their handles; empty: all.
func (l *ledger) with(part string) map[string]volume {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]volume{}
	for handle, v := range l.all {
		if part == "" || v.part() == part {
			out[handle] = v
		}
	}
	return out
}

// keys are the names of entries of the cache that volumes name.
func (l *ledger) keys() map[string]bool {
	out := map[string]bool{}
	for _, v := range l.with("") {
		if v.Key != "" {
			out[cache.Scoped(v.Namespace, v.Key)] = true
		}
	}
	return out
}
