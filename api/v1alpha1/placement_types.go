package v1alpha1

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Placement is the journal of one attempt to run a Gang: the whole plan in one
// small immutable object, written before any pod exists. While it exists it
// holds what it names. It is named <gang>-<attempt>.
//
// Each replica that an elastic gang is given beyond its minimum has a small
// Placement of its own, of the same attempt, that says what it extends; it is
// named <gang>-<attempt>.<role>-<index>.<epoch>-<number>. Deleting it is the
// order to give the replica back; the gang's controller lets it go once the
// replica's pod is gone.
//
// +kubebuilder:object:root=true
// +kubebuilder:printcolumn:name="Gang",type=string,JSONPath=`.spec.gang`
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.spec.attempt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Placement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the plan. It cannot be changed.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a placement cannot be changed"
	Spec PlacementSpec `json:"spec"`
}

// PlacementList is a list of Placements.
//
// +kubebuilder:object:root=true
type PlacementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Placement `json:"items"`
}

// PlacementSpec is a plan.
type PlacementSpec struct {
	// Gang is the name of the gang, in the same namespace.
	Gang string `json:"gang"`
	// GangUID is the gang's UID, so that a gang made anew under the same name
	// is not mistaken for it.
	GangUID types.UID `json:"gangUID"`
	// Attempt counts the gang's placements, from 1.
	Attempt int32 `json:"attempt"`
	// Epoch is the scheduler's epoch when it planned.
	Epoch int64 `json:"epoch"`
	// Extends is the name of the Placement that this one adds a replica to.
	// Empty for that of the attempt itself.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Extends string `json:"extends,omitempty"`
	// Nodes is the table that members index into.
	//
	// +kubebuilder:validation:MaxItems=1000
	Nodes []string `json:"nodes"`
	// Members has one entry for each member, or for several that are alike.
	//
	// +kubebuilder:validation:MaxItems=16000
	Members []PlacedMember `json:"members"`
}

// PlacedMember is where one member goes.
type PlacedMember struct {
	// Role is the member's role.
	Role string `json:"role"`
	// Index is its index in the role.
	Index int32 `json:"index"`
	// Node indexes the table of nodes.
	Node int32 `json:"node"`
	// GPUs are the UUIDs of its GPUs.
	//
	// +kubebuilder:validation:MaxItems=1024
	GPUs []string `json:"gpus,omitempty"`
	// Share is how much it was given of its GPU. Unset: its GPUs are wholly
	// its own.
	//
	// +optional
	Share *GPUShare `json:"share,omitempty"`
	// Port is the TCP port that the member listens on for its peers.
	Port int32 `json:"port"`
	// Following are the members of the same role with the indices right after
	// this one's, in that order: for each the index of its node in the table and
	// the UUIDs of its GPUs, with blanks between. They are given as much of their
	// GPUs, and listen on the same port. The API server checks and compares field
	// by field, so that a thousand lines cost it a small part of a thousand
	// entries.
	//
	// +kubebuilder:validation:MaxItems=1000
	// +optional
	Following []string `json:"following,omitempty"`
}

// Each yields every member as an entry of its own, in the order of the journal.
// Whose line cannot be read has a node that is in no table, -1.
func (s *PlacementSpec) Each() iter.Seq[PlacedMember] {
	return func(yield func(PlacedMember) bool) {
		for i := range s.Members {
			m := s.Members[i]
			lines := m.Following
			if m.Following = nil; !yield(m) {
				return
			}
			for _, line := range lines {
				m.Index++
				if m.Node, m.GPUs = follower(line); !yield(m) {
					return
				}
			}
		}
	}
}

// follower reads the node and the GPUs of a member that follows another.
func follower(line string) (node int32, gpus []string) {
	words := strings.Split(line, " ")
	n, err := strconv.ParseUint(words[0], 10, 31)
	if err != nil || slices.Contains(words, "") {
		return -1, nil
	}
	if len(words) > 1 {
		gpus = words[1:]
	}
	return int32(n), gpus
}

// Count is how many members there are.
func (s *PlacementSpec) Count() int {
	n := len(s.Members)
	for i := range s.Members {
		n += len(s.Members[i].Following)
	}
	return n
}

// Add adds a member: to the entry before it, if it follows and differs in nothing
// but its node and its GPUs.
func (s *PlacementSpec) Add(m PlacedMember) {
	if n := len(s.Members); n > 0 && s.Members[n-1].leads(&m) {
		line := append([]string{strconv.Itoa(int(m.Node))}, m.GPUs...)
		s.Members[n-1].Following = append(s.Members[n-1].Following, strings.Join(line, " "))
		return
	}
	s.Members = append(s.Members, m)
}

// leads reports whether a member can be one of those that follow this one.
func (m *PlacedMember) leads(next *PlacedMember) bool {
	blank := func(name string) bool { return name == "" || strings.Contains(name, " ") }
	return m.Role == next.Role && m.Port == next.Port && int(next.Index) == int(m.Index)+1+len(m.Following) &&
		m.Share.same(next.Share) && len(next.Following) == 0 && !slices.ContainsFunc(next.GPUs, blank)
}

// same reports whether two members were given as much.
func (s *GPUShare) same(t *GPUShare) bool { return s == t || s != nil && t != nil && *s == *t }

// GPUShare is a part of one GPU.
type GPUShare struct {
	// Milli is how much of the GPU, in thousandths.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Milli int32 `json:"milli,omitempty"`
	// MemoryMiB is how much of its memory. 0: the size of the GPU's memory is
	// not known.
	//
	// +kubebuilder:validation:Minimum=0
	MemoryMiB int64 `json:"memoryMiB,omitempty"`
}
