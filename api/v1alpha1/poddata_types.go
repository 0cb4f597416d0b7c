package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DataReason is how the volumes of data of a pod stand.
type DataReason string

// The reasons, from the best to the worst.
const (
	// DataMounted: all that the node was asked for is mounted.
	DataMounted DataReason = "Mounted"
	// DataFetching: on its way to the node.
	DataFetching DataReason = "Fetching"
	// DataRetrying: it could not be fetched, and is tried again.
	DataRetrying DataReason = "Retrying"
	// DataUnfit: it is more than the node may keep of data.
	DataUnfit DataReason = "DoesNotFit"
	// DataLost: it is not in the store, or damaged there.
	DataLost DataReason = "Lost"
)

// PodData is what the agent of a node says of the volumes of data of a pod.
type PodData struct {
	// Mounted is how many of them are mounted, and MountedTime when the last was.
	Mounted     int32             `json:"mounted"`
	MountedTime *metav1.MicroTime `json:"mountedTime,omitempty"`
	// Reason is how those stand that are not, the worst of them; Message says it in
	// words.
	Reason  DataReason `json:"reason"`
	Message string     `json:"message,omitempty"`
}
