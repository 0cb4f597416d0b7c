package conversion

import (
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

// domains returns the topology domains of a node by its labels.
func domains(labels map[string]string) scheduling.Domains {
	name := func(l v1alpha1.Level) string {
		for _, label := range v1alpha1.LabelsOfLevel(l) {
			if value := labels[label]; value != "" {
				return value
			}
		}
		return ""
	}
	return scheduling.Domains{Zone: name(v1alpha1.LevelZone), Rack: name(v1alpha1.LevelRack), NVLink: name(v1alpha1.LevelNVLink)}
}

// Topology converts the topology constraint of a gang.
func Topology(t *v1alpha1.Topology) scheduling.Topology {
	if t == nil {
		return scheduling.Topology{}
	}
	return scheduling.Topology{Within: scheduling.Level(t.Within), Required: t.Required}
}
