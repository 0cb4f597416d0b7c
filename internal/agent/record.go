package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/osfile"
)

// record is what a claim has of the node's GPUs.
type record struct {
	// Claim is its namespace and name.
	Claim string `json:"claim"`
	Parts []part `json:"parts"`
	// Alone says that its containers can open no GPUs but these.
	Alone bool `json:"alone,omitempty"`
}

// part is how much of one GPU: thousandths, and MiB of its memory; 0: not known.
type part struct {
	UUID      string `json:"uuid"`
	Milli     int64  `json:"milli"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
}

const wholeMilli = 1000

// recordOf reads what a claim was given.
func recordOf(claim *resourcev1.ResourceClaim, results []resourcev1.DeviceRequestAllocationResult, devices []gpu.Device) (record, error) {
	out := record{Claim: claim.Namespace + "/" + claim.Name, Alone: alone(claim)}
	for i := range results {
		r := &results[i]
		d, ok := device(devices, r.Device)
		switch {
		case !ok:
			return out, fmt.Errorf("it was given GPU %s, which this machine does not have", r.Device)
		case d.Unhealthy != "":
			return out, fmt.Errorf("it was given GPU %s, which must not be used: %s", d.UUID, d.Unhealthy)
		}
		p := part{UUID: d.UUID}
		p.Milli, p.MemoryMiB = inventory.Part(r)
		out.Parts = append(out.Parts, p)
	}
	return out, nil
}

// alone reports whether the containers of a claim can open no GPUs but its own, as Muster
// says: a policy of the chart lets only Muster write claims with this label. If several
// pods share the claim, Muster has not seen them all.
func alone(claim *resourcev1.ResourceClaim) bool {
	_, ofMuster := claim.Labels[v1alpha1.LabelGang]
	return ofMuster && claim.Annotations[v1alpha1.AnnotationGPUsAlone] == "true" && len(claim.Status.ReservedFor) == 1
}

// fits says what another claim still has of what this one was given.
func (r record) fits(devices []gpu.Device, others map[types.UID]record) error {
	for _, p := range r.Parts {
		milli, memory, holders := p.Milli, p.MemoryMiB, []string{}
		for _, other := range others {
			for _, q := range other.Parts {
				if q.UUID == p.UUID {
					milli, memory, holders = milli+q.Milli, memory+q.MemoryMiB, append(holders, other.Claim)
				}
			}
		}
		size := int64(0)
		for _, d := range devices {
			if d.UUID == p.UUID {
				size = d.MemoryMiB
			}
		}
		if milli > wholeMilli || size > 0 && memory > size {
			return fmt.Errorf("GPU %s is %w: containers of %s still have of it; it is tried again", p.UUID, errTaken, strings.Join(slices.Sorted(slices.Values(holders)), ", "))
		}
	}
	return nil
}

// reachable says which device file is missing of what a claim has: while a container
// that brings the driver is replaced there is none. Claims are prepared once, so they wait.
func (r record) reachable(devices []gpu.Device, root string) error {
	for _, d := range devices {
		if d.Simulated || !slices.ContainsFunc(r.Parts, func(p part) bool { return p.UUID == d.UUID }) {
			continue
		}
		if gpu.DeviceFile(root, d.Node) == "" {
			return fmt.Errorf("the file %s of GPU %s is not there now; it is tried again", d.Node, d.UUID)
		}
	}
	return nil
}

// records are kept in a folder, a file for each claim.
type records struct{ dir string }

func (r records) prepare() error {
	if err := osfile.MakeFolder(r.dir, 0o700); err != nil {
		return fmt.Errorf("making the folder of records: %w", err)
	}
	return nil
}

func (r records) path(claim types.UID) string { return filepath.Join(r.dir, string(claim)+".json") }

// all reads the records, by claim.
func (r records) all() (map[types.UID]record, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, fmt.Errorf("reading the folder of records: %w", err)
	}
	out := map[types.UID]record{}
	for _, e := range entries {
		claim, isRecord := strings.CutSuffix(e.Name(), ".json")
		if !isRecord {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(r.dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading what a claim has: %w", err)
		}
		var one record
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, fmt.Errorf("reading what a claim has, in %s: %w", e.Name(), err)
		}
		out[types.UID(claim)] = one
	}
	return out, nil
}

func (r records) write(claim types.UID, what record) error {
	return replace(r.path(claim), what, 0o600)
}

func (r records) remove(claim types.UID) error { return gone(r.path(claim)) }

// replace writes a file as JSON. A loss of power leaves the old content or the new.
func replace(path string, what any, mode fs.FileMode) error {
	raw, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return osfile.Replace(path, raw, mode)
}

// gone removes a file that may be gone already.
func gone(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return nil
}
