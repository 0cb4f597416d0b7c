package installation

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	loader "helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/charts"
)

// Release is the name under which the chart is rendered.
const Release = "muster"

// Rendering says what the chart is rendered with.
type Rendering struct {
	// Version is that of Muster; it is the image's tag unless the values say
	// otherwise.
	Version string
	// Kubernetes is the server's version, such as v1.37.1.
	Kubernetes string
	// Kinds are what the server serves beyond the oldest server that is
	// supported, as group/version/kind.
	Kinds []string
	// Values are set above the chart's own.
	Values map[string]any
}

// Render returns the chart's objects in the order in which they are applied.
// The error says which value is wrong, or which template.
func Render(r Rendering) ([]*unstructured.Unstructured, error) {
	c, err := load()
	if err != nil {
		return nil, err
	}
	c.Metadata.AppVersion = r.Version
	values, err := valuesFor(c, r)
	if err != nil {
		return nil, err
	}
	return renderAll(c, values)
}

// renderAll renders a chart with values, and returns the objects in order.
func renderAll(c *chart.Chart, values common.Values) ([]*unstructured.Unstructured, error) {
	files, err := engine.Render(c, values)
	if err != nil {
		return nil, fmt.Errorf("rendering the chart: %w", err)
	}
	var objects []*unstructured.Unstructured
	for name, text := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			continue
		}
		read, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("reading what %s rendered to: %w", name, err)
		}
		objects = append(objects, read...)
	}
	inOrder(objects)
	return objects, nil
}

// load reads the chart out of the binary.
func load() (*chart.Chart, error) {
	var files []*archive.BufferedFile
	err := fs.WalkDir(charts.Muster, "muster", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(charts.Muster, path)
		files = append(files, &archive.BufferedFile{Name: strings.TrimPrefix(path, "muster/"), Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the chart: %w", err)
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("reading the chart: %w", err)
	}
	return c, nil
}

// valuesFor are the values as templates see them.
func valuesFor(c *chart.Chart, r Rendering) (common.Values, error) {
	able := common.DefaultCapabilities.Copy()
	// A server that was built without a version is taken for the newest known.
	if version, err := common.ParseKubeVersion(r.Kubernetes); err == nil {
		able.KubeVersion = *version
	}
	able.APIVersions = append(slices.Clone(able.APIVersions), r.Kinds...)
	// Its own kinds come with it: applied in order they are there in time.
	able.APIVersions = append(able.APIVersions, v1alpha1.GroupVersion.String()+"/Queue")
	release := common.ReleaseOptions{Name: Release, Namespace: v1alpha1.SystemNamespace, Revision: 1, IsInstall: true}
	values, err := util.ToRenderValues(c, own(r.Values), release, able)
	if err != nil {
		return nil, fmt.Errorf("checking the values: %w", err)
	}
	if about, ok := values["Release"].(map[string]any); ok {
		about["Service"] = manager
	}
	return values, nil
}

// own are a user's values with the namespace as an object of the installation.
func own(values map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range values {
		out[key] = value
	}
	namespace := map[string]any{"create": true}
	if given, ok := values["namespace"].(map[string]any); ok {
		for key, value := range given {
			namespace[key] = value
		}
	}
	out["namespace"] = namespace
	return out
}

// decode reads the documents of a file; empty ones are none.
func decode(text string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// order is that of kinds: what others need comes first, what makes pods last.
var order = []string{
	"Namespace", kindCRD, "PriorityClass", "PriorityLevelConfiguration", "FlowSchema", "ServiceAccount",
	"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
	"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	"Queue", "ConfigMap", "NetworkPolicy", "Service", "PodDisruptionBudget", "CSIDriver", "DeviceClass", kindDaemonSet, kindDeployment,
}

const (
	kindCRD        = "CustomResourceDefinition"
	kindDeployment = "Deployment"
)

func inOrder(objects []*unstructured.Unstructured) {
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(
			cmp.Compare(rank(a.GetKind()), rank(b.GetKind())),
			cmp.Compare(a.GetKind(), b.GetKind()),
			cmp.Compare(a.GetNamespace(), b.GetNamespace()),
			cmp.Compare(a.GetName(), b.GetName()),
		)
	})
}

func rank(kind string) int {
	if i := slices.Index(order, kind); i >= 0 {
		return i
	}
	return slices.Index(order, kindDeployment)
}
