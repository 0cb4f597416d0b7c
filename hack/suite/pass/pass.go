package pass

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"syscall"
	"time"
)

// Lifetime is how long a record is believed.
const Lifetime = 7 * 24 * time.Hour

// Inputs are digests by the name of the input.
type Inputs map[string]string

// Key is the digest of all inputs, 32 hexadecimal digits.
func (in Inputs) Key() string {
	hash := sha256.New()
	for _, name := range in.names() {
		_, _ = fmt.Fprintf(hash, "%q %q\n", name, in[name])
	}
	return hex.EncodeToString(hash.Sum(nil))[:32]
}

func (in Inputs) names() []string {
	names := make([]string, 0, len(in))
	for name := range in {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Changed are the names of the inputs that differ, in order.
func (in Inputs) Changed(before Inputs) []string {
	var changed []string
	for _, name := range in.names() {
		if before[name] != in[name] {
			changed = append(changed, name)
		}
	}
	for _, name := range before.names() {
		if _, there := in[name]; !there {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}

// Record is a pass of a suite.
type Record struct {
	Suite  string
	Inputs Inputs
	// At is when the run ended; Seconds is how long it took.
	At      time.Time
	Seconds float64
	// Tests is the number of tests, subtests included.
	Tests int
}

// Records are kept in a folder.
type Records struct{ folder string }

// Open returns the records in folder, which is made if it does not exist. It returns an error
// if the folder belongs to another user or another user may write to it.
func Open(folder string) (*Records, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of passes: %w", err)
	}
	info, err := os.Stat(folder)
	if err != nil {
		return nil, fmt.Errorf("reading the folder of passes: %w", err)
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if int(owner) != os.Getuid() {
		return nil, fmt.Errorf("the folder of passes %s belongs to user %d, not to you (%d): remove it, or set XDG_CACHE_HOME to a folder of yours", folder, owner, os.Getuid())
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("the folder of passes %s has mode %o, so other users may write to it: run chmod go-w %s", folder, info.Mode().Perm(), folder)
	}
	return &Records{folder: folder}, nil
}

// Passed returns the record of a suite with these inputs; nil if there is none that is
// believed at now.
func (r *Records) Passed(suite string, in Inputs, now time.Time) *Record {
	record, err := r.read(r.path(suite, in, "pass"))
	if err != nil || record.Suite != suite || record.Inputs.Key() != in.Key() {
		return nil // none, or one that was cut short
	}
	if age := now.Sub(record.At); age < 0 || age > Lifetime {
		return nil
	}
	return &record
}

// Last returns the latest record of a suite with whatever inputs; nil if there is none.
func (r *Records) Last(suite string) *Record {
	files, _ := filepath.Glob(filepath.Join(r.folder, suite+"-*.pass"))
	var last *Record
	for _, file := range files {
		record, err := r.read(file)
		if err == nil && record.Suite == suite && (last == nil || record.At.After(last.At)) {
			last = &record
		}
	}
	return last
}

// Pass records a pass. It returns false without recording it if the suite failed before with
// the same inputs.
func (r *Records) Pass(record Record) (bool, error) {
	if failed, err := r.read(r.path(record.Suite, record.Inputs, "fail")); err == nil && record.At.Sub(failed.At) <= Lifetime {
		return false, nil
	}
	r.expire(record.At)
	return true, r.write(record, "pass")
}

// Fail records that a suite failed with these inputs, and withdraws a pass with the same.
func (r *Records) Fail(record Record) error {
	if err := os.Remove(r.path(record.Suite, record.Inputs, "pass")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("withdrawing a pass: %w", err)
	}
	return r.write(record, "fail")
}

func (r *Records) path(suite string, in Inputs, kind string) string {
	return filepath.Join(r.folder, suite+"-"+in.Key()+"."+kind)
}

func (r *Records) read(file string) (Record, error) {
	var record Record
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &record)
	}
	if err != nil {
		return record, fmt.Errorf("reading a record of a suite: %w", err)
	}
	return record, nil
}

// write replaces the file of a record as a whole, so that a killed run leaves the old or the
// new one.
func (r *Records) write(record Record, kind string) error {
	data, err := json.MarshalIndent(record, "", " ")
	if err != nil {
		return fmt.Errorf("writing a record of %s: %w", record.Suite, err)
	}
	temporary, err := os.CreateTemp(r.folder, "new-")
	if err != nil {
		return fmt.Errorf("writing a record of %s: %w", record.Suite, err)
	}
	_, err = temporary.Write(data)
	err = errors.Join(err, temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), r.path(record.Suite, record.Inputs, kind))
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
		return fmt.Errorf("writing a record of %s: %w", record.Suite, err)
	}
	return nil
}

// expire removes what is not believed any more. A file that cannot be removed is not believed
// either.
func (r *Records) expire(now time.Time) {
	files, _ := filepath.Glob(filepath.Join(r.folder, "*"))
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && now.Sub(info.ModTime()) > Lifetime {
			_ = os.Remove(file)
		}
	}
}
