package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Whole is all of the work, in the millionths in which progress is counted.
const Whole = 1_000_000

// PodProgress is what a node knows of how far a pod is.
type PodProgress struct {
	// DoneMillionths is the part of the work that the pod says is done, from 0
	// to [Whole]. Unset: it said nothing.
	DoneMillionths *int64 `json:"doneMillionths,omitempty"`
	// ReportTime is when it said so.
	ReportTime *metav1.MicroTime `json:"reportTime,omitempty"`
	// SavedTime is when something was last completely saved in the checkpoint
	// folder, by whichever attempt; or when the pod said that it saved. Unset:
	// not known.
	SavedTime *metav1.MicroTime `json:"savedTime,omitempty"`
	// SaysSaved is true once the pod said itself when it saved: then what is
	// seen in the folder no longer counts.
	SaysSaved bool `json:"saysSaved,omitempty"`
	// Problem is why what the pod last reported cannot be read; empty: it can,
	// or there is nothing.
	Problem string `json:"problem,omitempty"`
}

// ProgressPoint is one report of progress.
type ProgressPoint struct {
	// DoneMillionths is the part of the work that was done, in millionths.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	DoneMillionths int64 `json:"doneMillionths"`
	// RanSeconds is for how long the gang had run then, in all its attempts.
	//
	// +kubebuilder:validation:Minimum=0
	RanSeconds int64 `json:"ranSeconds"`
}

// Progress is how far the work is, as its members report it.
type Progress struct {
	// Percent is the part that is done, for people: "42%".
	Percent string `json:"percent,omitempty"`
	// DoneMillionths is the part that is done, in millionths.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	DoneMillionths int64 `json:"doneMillionths"`
	// ObservedTime is when it was reported.
	//
	// +optional
	ObservedTime *metav1.MicroTime `json:"observedTime,omitempty"`
	// Member is whose report it is, as role-index: the chief's, else that of
	// worker 0; "least" where neither reports, and it is the least that any
	// other member reports.
	Member string `json:"member,omitempty"`
	// Attempt is the attempt that reported it.
	Attempt int32 `json:"attempt,omitempty"`
	// Points are a few of the reports of that attempt, from the first to the
	// latest: what the rate is worked out from.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	Points []ProgressPoint `json:"points,omitempty"`
}
