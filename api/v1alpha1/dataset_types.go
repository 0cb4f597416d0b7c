package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultBranch is the branch of a dataset that is meant where none is named.
const DefaultBranch = "main"

// The most branches and tags that a dataset may have: all of them are in one
// object.
const (
	MaxDatasetBranches = 256
	MaxDatasetTags     = 1024
)

// Dataset is versioned data: branches, each of which is at a commit, and tags.
// The files are not in it: a commit names a tree of files in Muster's store of
// data, by content. Whoever moves a branch changes the object as they read it (by
// its resourceVersion), so that of two writers at once one is told that the branch
// has moved.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=mds
// +kubebuilder:printcolumn:name="Files",type=integer,JSONPath=`.spec.branches[?(@.name=="main")].files`
// +kubebuilder:printcolumn:name="Bytes",type=integer,JSONPath=`.spec.branches[?(@.name=="main")].bytes`
// +kubebuilder:printcolumn:name="Branches",type=string,JSONPath=`.spec.branches[*].name`
// +kubebuilder:printcolumn:name="Committed",type=date,JSONPath=`.spec.branches[?(@.name=="main")].moved`
// +kubebuilder:printcolumn:name="Description",type=string,priority=1,JSONPath=`.spec.description`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) >= 3 && size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: 3 to 63 lower-case letters, digits and '-', because clients of object stores know a dataset as a bucket of this name",fieldPath=".metadata"
type Dataset struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec DatasetSpec `json:"spec,omitempty"`
}

// DatasetList is a list of Datasets.
//
// +kubebuilder:object:root=true
type DatasetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Dataset `json:"items"`
}

// DatasetRef is the name of a branch or a tag: up to 63 letters, digits, '.',
// '_' and '-', beginning and ending with a letter or digit.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
type DatasetRef string

// DatasetCommit is the name of a commit: the hash of what it says, as 64
// hexadecimal digits.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
type DatasetCommit string

// DatasetSpec is what a dataset is for, and where its branches and tags are.
// They are in the spec because nothing else knows them: what they name is kept,
// and what nothing names is removed.
type DatasetSpec struct {
	// Description says in a sentence what the data is. Default: none.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`

	// Branches are the lines along which the data changes, at most 256. A
	// dataset without commits has none; main comes with the first.
	//
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Branches []DatasetBranch `json:"branches,omitempty"`

	// Open are commits of branches that are not closed yet: what is put into such a branch
	// by the command line or by S3 clients is there, and becomes one commit of the branch
	// when it is closed. One for each branch, which need not be there yet; at most 256.
	//
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Open []DatasetOpenCommit `json:"open,omitempty"`

	// Tags are names of commits that do not move, at most 1024.
	//
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1024
	// +optional
	Tags []DatasetTag `json:"tags,omitempty"`
}

// DatasetBranch is a branch and the commit it is at.
type DatasetBranch struct {
	// Name is how the branch is called. No tag of the dataset has this name.
	Name DatasetRef `json:"name"`
	// Commit is the last commit of the branch.
	Commit DatasetCommit `json:"commit"`
	// Files is how many files that commit holds, as told by whoever moved the
	// branch.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Files int64 `json:"files"`
	// Bytes is the size of these files together, in bytes.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Bytes int64 `json:"bytes"`
	// Moved is when the branch came to this commit, by the clock of whoever
	// moved it.
	//
	// +optional
	Moved *metav1.Time `json:"moved,omitempty"`
}

// DatasetOpenCommit is a commit of a branch that is not closed yet.
type DatasetOpenCommit struct {
	// Name is the branch whose commit it is to be.
	Name DatasetRef `json:"name"`
	// Commit is what it would be if it were closed now.
	Commit DatasetCommit `json:"commit"`
	// Files is how many files that holds, as told by whoever put the last.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Files int64 `json:"files"`
	// Bytes is the size of these files together, in bytes.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Bytes int64 `json:"bytes"`
	// Opened is when it was opened, by the clock of whoever did that.
	//
	// +optional
	Opened *metav1.Time `json:"opened,omitempty"`
	// Moved is when something was put into it last, by the clock of whoever did that.
	//
	// +optional
	Moved *metav1.Time `json:"moved,omitempty"`
}

// DatasetTag is a commit that has a name.
type DatasetTag struct {
	// Name is how the commit is called. No branch of the dataset has this name.
	Name DatasetRef `json:"name"`
	// Commit is what it names.
	Commit DatasetCommit `json:"commit"`
	// Made is when the tag was made, by the clock of whoever made it.
	//
	// +optional
	Made *metav1.Time `json:"made,omitempty"`
}
