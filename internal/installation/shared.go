package installation

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/charts"
)

// Sharing says what the rules of a machine that several users share are rendered with.
type Sharing struct {
	// Version is that of Muster.
	Version string
	// Manager and Node are the names of Muster's own parts in the API.
	Manager, Node string
	// Administrators are Unix groups whose members run Muster. Empty: root alone does.
	Administrators []string
	// Refused are places that no pod mounts by hostPath: absolute paths. Everything below
	// is refused, too.
	Refused []string
}

// ofMachine are the templates of the chart that hold on one machine. There are no network
// policies and no Pod Security: nothing enforces the first, and the second refuses hostPath.
var ofMachine = []string{
	"templates/_helpers.tpl", "templates/manager/flow.yaml", "templates/manager/rbac.yaml", "templates/roles/people.yaml",
	"templates/policies/containers.yaml", "templates/policies/journal.yaml", "templates/policies/manager.yaml", "templates/policies/names.yaml",
	"templates/policies/nodes.yaml", "templates/policies/queues.yaml", "templates/policies/rights.yaml", "templates/policies/submitter.yaml",
}

// groupName is the name of a Unix group as it can be in a subject.
var groupName = regexp.MustCompile(`^[^\x00-\x1f\x7f:,/]{1,256}$`)

func (s Sharing) check() error {
	for _, group := range s.Administrators {
		if !groupName.MatchString(group) {
			return fmt.Errorf("the group of administrators is %q: give the name of a Unix group", group)
		}
	}
	for _, place := range s.Refused {
		if !path.IsAbs(place) || path.Clean(place) != place || place == "/" || strings.ContainsAny(place, `"'\`) || strings.ContainsFunc(place, func(r rune) bool { return r < ' ' }) {
			return fmt.Errorf("the folder %q is not usable for a shared Muster: give an absolute path below / without quotes and backslashes", place)
		}
	}
	return nil
}

// RenderShared returns the roles and policies of a machine that several users share, in the
// order in which they are applied.
func RenderShared(s Sharing) ([]*unstructured.Unstructured, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	c, err := load()
	if err != nil {
		return nil, err
	}
	c.Metadata.AppVersion = s.Version
	c.Templates = slices.DeleteFunc(c.Templates, func(f *common.File) bool { return !slices.Contains(ofMachine, f.Name) })
	if len(c.Templates) != len(ofMachine) {
		return nil, fmt.Errorf("reading the chart: %d of %d templates of a machine are there", len(c.Templates), len(ofMachine))
	}
	files, err := fs.Glob(charts.Machine, "machine/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the templates of a machine: %w", err)
	}
	for _, name := range files {
		data, err := fs.ReadFile(charts.Machine, name)
		if err != nil {
			return nil, fmt.Errorf("reading the templates of a machine: %w", err)
		}
		c.Templates = append(c.Templates, &common.File{Name: "templates/" + name, Data: data})
	}
	r := Rendering{Version: s.Version, Values: map[string]any{"data": map[string]any{"gateway": map[string]any{"enabled": true}}}}
	for _, kind := range asked {
		r.Kinds = append(r.Kinds, kind.GroupVersion().String()+"/"+kind.Kind)
	}
	values, err := valuesFor(c, r)
	if err != nil {
		return nil, err
	}
	// Beside the schema: no value of a cluster.
	given, ok := values["Values"].(common.Values)
	if !ok {
		return nil, fmt.Errorf("reading the values of the chart: they are %T", values["Values"])
	}
	given["machine"] = map[string]any{
		"manager": s.Manager, "node": s.Node, "administrators": asAny(s.Administrators), "refused": asAny(s.Refused),
	}
	objects, err := renderAll(c, values)
	if err != nil {
		return nil, err
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return slices.Contains(ofCluster, o.GetName()) })
	for _, o := range objects {
		s.name(o.Object)
	}
	return objects, nil
}

// ofCluster are objects of these templates that only a cluster needs: agents that reach
// the door of a manager, and namespaces without users, since on one machine jobs are only
// allowed in those of users.
var ofCluster = []string{"muster-door", "muster-namespaces"}

// name puts the names of Muster's own parts in place of their service accounts, in the
// subjects of bindings and of flow schemas.
func (s Sharing) name(value any) {
	users := map[string]string{"muster-manager": s.Manager, agentName: s.Node}
	switch value := value.(type) {
	case map[string]any:
		if value["kind"] == "ServiceAccount" {
			account := value
			if nested, flow := value["serviceAccount"].(map[string]any); flow {
				account = nested
			}
			name, _ := account["name"].(string)
			if user, known := users[name]; known && account["namespace"] == v1alpha1.SystemNamespace {
				_, flow := value["serviceAccount"]
				clear(value)
				value["kind"] = "User"
				if flow {
					value["user"] = map[string]any{"name": user}
				} else {
					value["apiGroup"], value["name"] = "rbac.authorization.k8s.io", user
				}
				return
			}
		}
		for _, inner := range value {
			s.name(inner)
		}
	case []any:
		for _, inner := range value {
			s.name(inner)
		}
	}
}

func asAny(all []string) []any {
	out := make([]any, 0, len(all))
	for _, one := range all {
		out = append(out, one)
	}
	return out
}
