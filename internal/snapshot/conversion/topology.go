package conversion

import (
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

// domains are where a node's labels say that it is.
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

// Topology turns what a gang says of where it is to be into the core's.
func Topology(t *v1alpha1.Topology) scheduling.Topology {
	if t == nil {
		return scheduling.Topology{}
	}
	return scheduling.Topology{Within: scheduling.Level(t.Within), Required: t.Required}
}
