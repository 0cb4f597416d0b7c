package podrecord

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/osfile"
)

// recordName is the file in a pod's folder by which the next Muster process recognises
// the pod.
const recordName = "pod.json"

// Record describes a pod on disk. Later versions may add fields; they never remove one.
type Record struct {
	// Cluster is the UID of the kube-system namespace: another one means
	// another database.
	Cluster types.UID `json:"cluster"`
	// ResourceVersion is the pod's first known resource version. A list at an equal or
	// later revision without the pod means that the pod was deleted.
	ResourceVersion string    `json:"resourceVersion"`
	UID             types.UID `json:"uid"`
	Namespace       string    `json:"namespace"`
	Name            string    `json:"name"`
	// Job is the UID of the TrainingJob, whose archive keeps the logs.
	Job types.UID `json:"job,omitempty"`
	// GPUs are the UUIDs that the pod holds.
	GPUs []string `json:"gpus,omitempty"`
	// Share is the pod's share of its GPU; the zero value stands for whole GPUs.
	Share admission.Share `json:"share,omitzero"`
	// Images is true for a pod with containers in images, which have root folders.
	Images bool `json:"images,omitempty"`
	// Past is the usage of removed attempts.
	Past Past `json:"past"`
}

// Held returns the number of GPUs that the pod holds, with a share as a fraction.
func (r *Record) Held() float64 {
	if r.Share.Milli > 0 {
		return float64(r.Share.Milli) / 1000
	}
	return float64(len(r.GPUs))
}

// Past sums up attempts whose folders are gone.
type Past struct {
	CPUSeconds  float64 `json:"cpuSeconds,omitempty"`
	MaxRSSBytes int64   `json:"maxRSSBytes,omitempty"`
	// Started is the start time of the first of them.
	Started time.Time `json:"started,omitzero"`
}

// Write replaces the record atomically.
func (r *Record) Write(podsDir string) error {
	folder := filepath.Join(podsDir, string(r.UID))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making the pod's folder: %w", err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding the pod's record: %w", err)
	}
	name := filepath.Join(folder, recordName)
	// A record names the GPUs of processes, and no process survives a power loss, so the
	// record needs no sync.
	if err := osfile.ReplaceUnsynced(name, data, 0o600); err != nil {
		return fmt.Errorf("writing the pod's record: %w", err)
	}
	return nil
}

// ReadAll returns the records of all pods by UID. The error joins the errors of folders
// whose record it cannot read; the other records are valid.
func ReadAll(podsDir string) (map[types.UID]*Record, error) {
	entries, err := os.ReadDir(podsDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading pod folders: %w", err)
	}
	records := map[types.UID]*Record{}
	var errs []error
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(podsDir, entry.Name(), recordName))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		var r Record
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if err == nil && string(r.UID) != entry.Name() {
			err = fmt.Errorf("it is of pod %q", r.UID)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("reading the record of pod %s: %w", entry.Name(), err))
			continue
		}
		records[r.UID] = &r
	}
	return records, errors.Join(errs...)
}
