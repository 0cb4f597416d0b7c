package configuration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// The version and kind that a configuration file must name.
const (
	APIVersion = "config.muster.dev/v1alpha1"
	Kind       = "Embedded"
)

// Tier says how pods are kept apart on the machine.
type Tier string

// The tiers. TierAuto takes the strongest that the machine allows.
const (
	TierAuto     Tier = "auto"
	TierPlain    Tier = "plain"
	TierIsolated Tier = "isolated"
)

// GroupQueue is the queue of a Unix group.
type GroupQueue struct {
	// Group is the name of the Unix group.
	Group string `json:"group"`
	// Queue is the name of the queue: lower-case letters, digits and -, and not u-<uid>.
	Queue string `json:"queue"`
}

// Embedded configures `muster up`. Every field may be left out.
type Embedded struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	// Port is the API server's port on the loopback address. Default: the port
	// used last time, else 6443, else any free one.
	Port int `json:"port,omitempty"`
	// Tier says how pods are kept apart. Default: the flag of the last start, else auto.
	Tier Tier `json:"tier,omitempty"`
	// SimulateGPUs declares simulated GPUs, such as 8xA100; none means the real ones. Default: the
	// flag of the last start, else the real ones.
	SimulateGPUs string `json:"simulateGPUs,omitempty"`
	// Guard keeps programs outside of Muster from opening the GPUs.
	Guard Guard `json:"guard,omitzero"`
	// HostPorts is the range from which members get ports in the plain tier.
	// Default: 20000-29999.
	HostPorts *PortRange `json:"hostPorts,omitempty"`
	// Images maps image names, which may end in *, to their replacements on this machine.
	Images Images `json:"images,omitempty"`
	// Containerd is the socket of the containerd that pulls and unpacks the
	// other images, or "none" if no image is to be run. Default: the flag of the last
	// start, else /run/containerd/containerd.sock.
	Containerd string `json:"containerd,omitempty"`
	// NodeLabels are put on this machine's Node, beside those that Muster sets
	// itself: for node selectors, and to say where the machine is:
	// topology.kubernetes.io/zone, muster.dev/rack, muster.dev/nvlink-domain.
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	// DataCache is how much data that jobs read is kept on this machine, so that it
	// is fetched once: 100Gi. What jobs read just now stays in any case; what was
	// read longest ago goes first. Default: half of the disk that it is on.
	DataCache resource.Quantity `json:"dataCache,omitzero"`
	// S3 says where S3 clients find datasets.
	S3 S3 `json:"s3"`
	// UserProcesses is the highest number of processes and threads of one user, on a machine that
	// several users share. Default: a third of what the machine allows.
	UserProcesses int64 `json:"userProcesses,omitempty"`
	// Administrators are the Unix groups whose members manage queues, nodes and the jobs of all users,
	// on a machine that several users share. Root is one in any case. Default: muster-admin, if there
	// is this group.
	Administrators []string `json:"administrators,omitempty"`
	// GroupQueues are the queues of Unix groups there: the queue of a user is made below that of the
	// first group that the user is in. Default: no queue of a user is below another.
	GroupQueues []GroupQueue `json:"groupQueues,omitempty"`
	// Console is the HTTP server for people.
	Console Console `json:"console"`
	// Retention says how long what nobody refers to any more is kept in the
	// data folder.
	Retention Retention `json:"retention"`
	// Quotas bound the stores of each namespace. A Muster of one user has none.
	Quotas Quotas `json:"quotas"`
}

// Quotas are how much each namespace may keep on a machine that several users share.
type Quotas struct {
	// Code is for code snapshots. Default: 20Gi.
	Code resource.Quantity `json:"code,omitzero"`
	// Data is for datasets, results of pipelines included. Default: a quarter of the disk
	// of the data folder.
	Data resource.Quantity `json:"data,omitzero"`
	// Files is for the folders of running jobs: emptyDirs, temporary folders and homes, and for claims.
	// Default: half of the disk of the data folder.
	Files resource.Quantity `json:"files,omitzero"`
}

// Guard says which devices of GPUs programs outside of Muster cannot open, and which programs these are.
type Guard struct {
	// Devices is none, gpus (every GPU) or compute (CUDA alone; nvidia-smi works). Default: the flag of
	// the last start, else none.
	Devices string `json:"devices,omitempty"`
	// Groups are control groups of version 2, relative to their root. Default: user.slice, the login
	// sessions.
	Groups []string `json:"groups,omitempty"`
}

// The values of Guard.Devices.
const (
	GuardNone    = "none"
	GuardGPUs    = "gpus"
	GuardCompute = "compute"
)

// validate refuses other values, and groups that are Muster's own or no paths.
func (g Guard) validate() error {
	if !slices.Contains([]string{"", GuardNone, GuardGPUs, GuardCompute}, g.Devices) {
		return fmt.Errorf("guard %q: allowed are %s, %s and %s", g.Devices, GuardGPUs, GuardCompute, GuardNone)
	}
	for _, group := range g.Groups {
		if group == "." || !fs.ValidPath(group) || group == "muster" || strings.HasPrefix(group, "muster/") {
			return fmt.Errorf("guard: groups: %q: give a control group of other programs than Muster's, relative to the root of version 2, such as user.slice", group)
		}
	}
	return nil
}

// S3 is the gateway by which S3 clients read and write datasets.
type S3 struct {
	// Port is where it listens on the loopback address. Default: 6480 if that is
	// free, else any.
	Port int `json:"port,omitempty"`
	// Disabled has it not listen at all. Default: false.
	Disabled bool `json:"disabled,omitempty"`
}

// Retention is how long after its last use a thing is kept that no job and no
// pod refers to. A duration is written as hours, minutes and seconds: 336h. 0:
// for ever.
type Retention struct {
	// Code is for code snapshots. Default: 336h, 14 days.
	Code Duration `json:"code"`
	// Environments is for Python environments that were built. Default: 336h,
	// 14 days.
	Environments Duration `json:"environments"`
	// Images is for images that were pulled. Default: 336h, 14 days.
	Images Duration `json:"images"`
	// Results is for results of pipelines that no stage's output has any more.
	// Default: 720h, 30 days.
	Results Duration `json:"results"`
}

// Where containerd listens unless it is told otherwise, and the word for a
// machine that is to run no images.
const (
	DefaultContainerd = "/run/containerd/containerd.sock"
	NoContainerd      = "none"
)

// minUserProcesses is the smallest limit: with fewer, Python with threads does not start.
const minUserProcesses = 100

// PortRange is a range of TCP ports, both ends included.
type PortRange struct {
	First int32 `json:"first"`
	Last  int32 `json:"last"`
}

// Default returns the configuration of a machine without a file.
func Default() Embedded {
	return Embedded{APIVersion: APIVersion, Kind: Kind, Tier: TierAuto, Containerd: DefaultContainerd, HostPorts: &PortRange{First: 20000, Last: 29999},
		Retention: Retention{Code: defaultRetention, Environments: defaultRetention, Images: defaultRetention, Results: defaultResults}}
}

// Load reads the file, lays it over the defaults and checks it. A missing file
// is not an error unless required.
func Load(path string, required bool) (Embedded, error) {
	return LoadOver(Default(), path, required)
}

// LoadOver is [Load] with other defaults: a field that the file does not have is that of c.
func LoadOver(c Embedded, path string, required bool) (Embedded, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !required {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("reading the configuration: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return c, fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	return c, nil
}

// Validate returns an error that names the first field that cannot be, with
// what was given and what is allowed.
func (c Embedded) Validate() error {
	if c.APIVersion != APIVersion || c.Kind != Kind {
		return fmt.Errorf("apiVersion %q, kind %q: expected apiVersion: %s and kind: %s", c.APIVersion, c.Kind, APIVersion, Kind)
	}
	if c.Port < 0 || c.Port > 65535 {
		return fmt.Errorf("port %d: allowed are 1 to 65535, and 0 for any", c.Port)
	}
	if c.S3.Port < 0 || c.S3.Port > 65535 {
		return fmt.Errorf("s3: port %d: allowed are 1 to 65535, and 0 for 6480 or any", c.S3.Port)
	}
	if err := c.Console.validate(); err != nil {
		return fmt.Errorf("console: %w", err)
	}
	if !slices.Contains([]Tier{TierAuto, TierPlain, TierIsolated}, c.Tier) {
		return fmt.Errorf("tier %q: allowed are %s, %s and %s", c.Tier, TierAuto, TierPlain, TierIsolated)
	}
	if r := c.HostPorts; r == nil || r.First < 1024 || r.Last > 65535 || r.First > r.Last {
		return fmt.Errorf("hostPorts %+v: give first and last between 1024 and 65535, first not above last", r)
	}
	if err := c.Images.validate(); err != nil {
		return err
	}
	if err := c.Guard.validate(); err != nil {
		return err
	}
	if c.Containerd != NoContainerd && !filepath.IsAbs(c.Containerd) {
		return fmt.Errorf("containerd: %q is neither the absolute path of containerd's socket nor %s", c.Containerd, NoContainerd)
	}
	if err := checkLabels(c.NodeLabels); err != nil {
		return err
	}
	if c.UserProcesses < 0 || c.UserProcesses > 0 && c.UserProcesses < minUserProcesses {
		return fmt.Errorf("userProcesses %d: give at least %d, such as 20000, or leave it out for a third of what the machine allows", c.UserProcesses, minUserProcesses)
	}
	if !c.DataCache.IsZero() && c.DataCache.Value() < 1<<20 {
		return fmt.Errorf("dataCache %s: give at least 1Mi, such as 100Gi, or leave it out for half of the disk", c.DataCache.String())
	}
	for _, quota := range []struct {
		name string
		size resource.Quantity
	}{{"code", c.Quotas.Code}, {"data", c.Quotas.Data}, {"files", c.Quotas.Files}} {
		if !quota.size.IsZero() && quota.size.Value() < 1<<20 {
			return fmt.Errorf("quotas: %s: %s: give at least 1Mi, such as 20Gi, or leave it out for the default", quota.name, quota.size.String())
		}
	}
	for _, kept := range []struct {
		name string
		time Duration
	}{{"code", c.Retention.Code}, {"environments", c.Retention.Environments}, {"images", c.Retention.Images}, {"results", c.Retention.Results}} {
		if kept.time < 0 {
			return fmt.Errorf("retention: %s: %s: give a time such as 336h, or 0 to keep them for ever", kept.name, kept.time)
		}
	}
	return nil
}
