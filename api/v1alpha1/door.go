package v1alpha1

// How the door of the manager is found, and who may come in: what it, those who
// ask and the chart have to agree on.
const (
	// DoorHeader is the header that holds a caller's token.
	DoorHeader = "X-Muster-Token"
	// DoorMark is a header of every answer of the door: what lacks it is another's
	// answer, such as that of the API server on the way.
	DoorMark = "X-Muster-Door"
	// DoorData is a header of the door's answers about objects of versioned data:
	// without it a 404 says nothing of whether there is an object.
	DoorData = "X-Muster-Data"
	// DoorAudience is the audience of that token.
	DoorAudience = "muster"
	// DoorUser begins a second audience of that token; the name of who asked the
	// API server for it follows. A policy sees to it that nobody names another.
	DoorUser = "muster-user:"
	// DoorGroup begins further audiences of that token, where it is wanted: each is
	// followed by a group that who asked is in. The same policy sees to that.
	DoorGroup = "muster-group:"
	// DoorReports is the path at which agents say how far the pods on their node
	// are: JSON, [PodProgress] by the pod's UID.
	DoorReports = "/v1/reports"
	// DoorArrivals is the path at which agents say how the volumes of data of the pods
	// on their node stand: JSON, [PodData] by the pod's UID.
	DoorArrivals = "/v1/arrivals"
	// DoorAhead is the path at which agents ask what is to be fetched to their node
	// before anybody there needs it: JSON, a [DataOrder] each. The query "seen" has the
	// ETag of the last answer; while there is nothing else, the answer is waited for.
	DoorAhead = "/v1/ahead"
	// DoorAccount is the service account whose tokens speak for its namespace.
	DoorAccount = "muster-door"
	// NodeAccount is the service account, in SystemNamespace, of agents on nodes.
	NodeAccount = "muster-node"
	// DoorService is the door's name where the API server proxies to services: the
	// scheme, the Service and its port.
	DoorService = "https:muster-manager:door"
	// DoorName is the name that the door's certificates are for, and that of the
	// ConfigMap in SystemNamespace that holds them.
	DoorName = "muster-door"
	// GatewayName is the name, in SystemNamespace, of the Service of the S3 gateway,
	// and begins those of the Secrets that it has there.
	GatewayName = "muster-gateway"
)

// DataOrder is data that a gang is going to read on a node that it will likely get. It
// is fetched there before the gang has its place.
//
// +kubebuilder:object:generate=false
type DataOrder struct {
	// Namespace is the gang's.
	Namespace string `json:"namespace"`
	// Commit and Path are what is read, and Key is its name in caches.
	Commit string `json:"commit"`
	Path   string `json:"path,omitempty"`
	Key    string `json:"key,omitempty"`
	// Words are what people call it.
	Words string `json:"words,omitempty"`
}
