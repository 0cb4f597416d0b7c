package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// Code is what a job runs. Give one of snapshot and url.
//
// +kubebuilder:validation:XValidation:rule="has(self.snapshot) != has(self.url)",message="code: give one of snapshot (made by muster run) and url"
// +kubebuilder:validation:XValidation:rule="!has(self.url) || !self.url.matches('://[^/?#]*@')",message="url has a user or password in it, which every reader of this object could see: download the script, and give it with muster run --script FILE"
type Code struct {
	// Snapshot is the digest of a stored code snapshot.
	//
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Snapshot string `json:"snapshot,omitempty"`

	// URL is where a script is fetched from, once, before the job is
	// scheduled. http and https.
	//
	// +kubebuilder:validation:Pattern=`^https?://`
	// +kubebuilder:validation:MaxLength=4096
	URL string `json:"url,omitempty"`
}

// Environment is a Python environment. Give one of requirements, path and
// image; requirements may go with an image, on top of which they are installed.
//
// +kubebuilder:validation:XValidation:rule="!has(self.path) || [has(self.requirements) && size(self.requirements) > 0, has(self.python), has(self.image) && size(self.image) > 0].filter(x, x).size() == 0",message="path is an environment as it is: give it alone, or leave it out and give requirements (and python, the version to install them into) or an image"
// +kubebuilder:validation:XValidation:rule="!has(self.image) || size(self.image) == 0 || !has(self.python) || has(self.requirements) && size(self.requirements) > 0",message="an image has the Python that it has: leave python out, or give requirements that want it"
// +kubebuilder:validation:XValidation:rule="!has(self.requirements) || !self.requirements.matches('://[^/?#\\\\s]*@')",message="requirements: an address has a user or password in it, which every reader of this object could see: leave it out, and name a Secret with it in indexSecret"
// +kubebuilder:validation:XValidation:rule="!has(self.indexSecret) || size(self.indexSecret) == 0 || has(self.requirements) && size(self.requirements) > 0",message="indexSecret is read while requirements are installed: give requirements, or leave it out"
type Environment struct {
	// Requirements is the text of a requirements.txt. It is installed into a
	// virtual environment once and cached by content. With an image, and always on
	// a cluster, that is one for the Python of the job's image, and what the image
	// has is seen in it.
	//
	// +kubebuilder:validation:MaxLength=65536
	Requirements string `json:"requirements,omitempty"`

	// IndexSecret names a Secret of the same namespace. Its key netrc has the users and
	// passwords for indexes and repositories of the requirements, in the format of
	// ~/.netrc. Only the build of the environment reads it.
	//
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`
	IndexSecret string `json:"indexSecret,omitempty"`

	// Python is the Python version to use with requirements: "3", "3.11".
	// Default: the machine's, or the image's, python3.
	//
	// +kubebuilder:validation:Pattern=`^3(\.[0-9]+)?$`
	Python string `json:"python,omitempty"`

	// Path is the folder of an existing virtual or conda environment on the
	// machine.
	//
	// +kubebuilder:validation:Pattern=`^/`
	// +kubebuilder:validation:MaxLength=4096
	Path string `json:"path,omitempty"`

	// Image is a container image.
	//
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`
}

// JobVolume is a folder that all members share. Give one of size and claim.
//
// +kubebuilder:validation:XValidation:rule="has(self.size) != has(self.claim)",message="volume: give one of size (a new claim) and claim (an existing one)"
type JobVolume struct {
	// Name is the volume's name within the job.
	//
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`
	// Size asks for a new claim of this size; it is deleted with the job.
	Size *resource.Quantity `json:"size,omitempty"`
	// Claim names an existing PersistentVolumeClaim.
	//
	// +kubebuilder:validation:MaxLength=253
	Claim string `json:"claim,omitempty"`
	// MountPath is where members find it; a relative path is below the
	// working directory.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	MountPath string `json:"mountPath"`
	// ReadOnly mounts it read-only.
	ReadOnly bool `json:"readOnly,omitempty"`
}

// JobData is a version of a dataset, or a part of one, that all members read.
// What a branch or tag means is decided once, when the job is prepared;
// status.data says which commit that is.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.branch) && has(self.version))",message="data: give one of branch (its last commit) and version (a branch, a tag or a commit, such as v1 or main~1)"
// +kubebuilder:validation:XValidation:rule="!has(self.path) || !self.path.matches('(^|/)[.][.](/|$)')",message="data: path must not hold \"..\": give it from the top of the dataset, such as /train"
type JobData struct {
	// Dataset is the name of a Dataset in the job's namespace.
	//
	// +kubebuilder:validation:Pattern=`^[a-z0-9][-a-z0-9]{1,61}[a-z0-9]$`
	// +kubebuilder:validation:MaxLength=63
	Dataset string `json:"dataset"`
	// Branch is the branch whose last commit is read. Default: main, unless there
	// is a version.
	//
	// +optional
	Branch DatasetRef `json:"branch,omitempty"`
	// Version is a branch, a tag, a commit or its first 8 or more digits, each
	// with ~N behind it for the Nth commit before.
	//
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?(~[0-9]{0,6})?$`
	// +kubebuilder:validation:MaxLength=72
	// +optional
	Version string `json:"version,omitempty"`
	// Path is which part: a folder, whose content comes into mount; a file; or a
	// pattern such as /train/*.png, of which what matches comes below mount as it
	// lies in the folder before the first name with *, ? or [. Default: all.
	//
	// +kubebuilder:validation:MaxLength=4095
	// +optional
	Path string `json:"path,omitempty"`
	// Mount is where members find it: an absolute path; a relative one is below
	// the working directory. In the plain tier an absolute one has to be below
	// /muster, such as /muster/data/digits.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Mount string `json:"mount"`
	// Lazy is true for data that is not fetched before the job starts, but read as
	// it is asked for, from a mount; false for data that is always fetched. Default:
	// fetched, unless it is more than the machine's cache of data may hold, which on a
	// cluster is known where agent.dataCache of the chart is set. A mount shows a folder
	// or a file, no pattern.
	//
	// +optional
	Lazy *bool `json:"lazy,omitempty"`
}

// JobDataStatus is what a job reads of a dataset.
type JobDataStatus struct {
	// Mount is that of the spec, by which this belongs to it.
	Mount string `json:"mount"`
	// Dataset, Version and Path are what was asked for.
	Dataset string `json:"dataset"`
	Version string `json:"version"`
	// +optional
	Path string `json:"path,omitempty"`
	// Commit is what that was when the job was prepared. It is kept as long as
	// the job is there and has not finished.
	Commit DatasetCommit `json:"commit"`
	// Files and Bytes are how much there is to read. Unset until that is known.
	//
	// +optional
	Files int64 `json:"files,omitempty"`
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// Lazy is true for what is read as it is asked for, from a mount.
	//
	// +optional
	Lazy bool `json:"lazy,omitempty"`
	// Key names this content in the cache of a machine.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Key string `json:"key,omitempty"`
}

// Checkpoints says where the folder that survives restarts comes from.
//
// +kubebuilder:validation:XValidation:rule="[has(self.size), has(self.claim), has(self.none) && self.none].filter(x, x).size() <= 1",message="checkpoints: give one of size, claim and none"
type Checkpoints struct {
	// Size of the new claim; it is deleted with the job. Default: 10Gi.
	Size *resource.Quantity `json:"size,omitempty"`
	// Claim names an existing claim, so that a later job can go on where this
	// one stopped.
	//
	// +kubebuilder:validation:MaxLength=253
	Claim string `json:"claim,omitempty"`
	// None is for a job that keeps nothing: there is no such folder, and
	// MUSTER_CHECKPOINT_DIR and MUSTER_LOG_DIR are not set. What is written
	// elsewhere is lost with each member.
	//
	// +optional
	None bool `json:"none,omitempty"`
}
