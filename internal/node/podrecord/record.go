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

// recordName is the file in a pod's folder that the next muster recognises
// the pod by.
const recordName = "pod.json"

// Record is what is kept on disk of a pod. Fields are only ever added.
type Record struct {
	// Cluster is the UID of the kube-system namespace: another one means
	// another database.
	Cluster types.UID `json:"cluster"`
	// ResourceVersion is the pod's when it was first seen: a list at an equal
	// or later revision without the pod means that it was deleted.
	ResourceVersion string    `json:"resourceVersion"`
	UID             types.UID `json:"uid"`
	Namespace       string    `json:"namespace"`
	Name            string    `json:"name"`
	// Job is the UID of the TrainingJob, whose archive keeps the logs.
	Job types.UID `json:"job,omitempty"`
	// GPUs are the UUIDs that the pod holds.
	GPUs []string `json:"gpus,omitempty"`
	// Share is how much it holds of its GPU; the zero value: its GPUs wholly.
	Share admission.Share `json:"share,omitzero"`
	// Images is true for a pod with containers in images, which hold roots.
	Images bool `json:"images,omitempty"`
	// Past is what removed attempts used.
	Past Past `json:"past"`
}

// Held is how many GPUs the pod holds, a part of one being that part.
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
	// Started is when the first of them started.
	Started time.Time `json:"started,omitzero"`
}

// Write stores the record in one step.
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
	// Records say which GPUs processes hold, and no process outlives the machine's power.
	if err := osfile.ReplaceUnsynced(name, data, 0o600); err != nil {
		return fmt.Errorf("writing the pod's record: %w", err)
	}
	return nil
}

// ReadAll returns the records of all pods by UID. Folders without a
// readable record have none; the error joins what was wrong with them.
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
