package v1alpha1

// Level is a level of the topology: a zone, a rack in it, an NVLink domain in
// that, or one node. Which domains a node is in, its labels say; see
// LabelsOfLevel.
//
// +kubebuilder:validation:Enum=zone;rack;nvlink;node
// +kubebuilder:validation:MaxLength=16
type Level string

// The levels, from the widest to the narrowest.
const (
	LevelZone   Level = "zone"
	LevelRack   Level = "rack"
	LevelNVLink Level = "nvlink"
	LevelNode   Level = "node"
)

// Levels lists them, the widest first.
func Levels() []Level { return []Level{LevelZone, LevelRack, LevelNVLink, LevelNode} }

// Topology says where all members of a gang are to be together.
type Topology struct {
	// Within is the level of which all members are to be in one domain: zone,
	// rack, nvlink or node. Of those with room the one is taken that is left
	// with the least.
	Within Level `json:"within"`
	// Required is true where that must be: the gang waits until one domain has
	// room, and a node that is in no domain of the level is not used. Else, if
	// no domain of the level has room, one of the next wider level does, and at
	// last any nodes. Default: false.
	//
	// +optional
	Required bool `json:"required,omitempty"`
}

// Spread says how the members of a role are to be apart.
type Spread struct {
	// Over is the level of which the members are to be in different domains:
	// node, nvlink, rack or zone.
	Over Level `json:"over"`
	// Required is true where no two members may be in one domain; a node that
	// is in no domain of the level is then not used. Else they are in as many
	// domains as have room, and as evenly as there is room. Default: false.
	//
	// +optional
	Required bool `json:"required,omitempty"`
}

// Labels of nodes that Muster defines for the topology.
const (
	// LabelRack names a node's rack.
	LabelRack = "muster.dev/rack"
	// LabelNVLinkDomain names the group of nodes that NVLink joins.
	LabelNVLinkDomain = "muster.dev/nvlink-domain"
)

// LabelsOfLevel are the labels of nodes whose value names the node's domain of
// a level. The first that a node has counts. Beside Muster's own they are those
// of Kubernetes, of the GPU feature discovery, of Topograph (also under its
// older names), and of AWS. None for LevelNode.
func LabelsOfLevel(l Level) []string {
	switch l {
	case LevelZone:
		return []string{"topology.kubernetes.io/zone"}
	case LevelRack:
		return []string{
			LabelRack, "fabric.topograph.run/tier-0", "network.topology.nvidia.com/leaf",
			"topology.k8s.aws/network-node-layer-3",
		}
	case LevelNVLink:
		return []string{
			LabelNVLinkDomain, "nvidia.com/gpu.clique", "accelerator.topograph.run/domain",
			"network.topology.nvidia.com/accelerator",
		}
	}
	return nil
}
