package serve

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/client-go/openapi"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// schema is what is compared of a kind's schema: which fields there are.
type schema struct {
	Properties map[string]*schema `json:"properties"`
	Items      *schema            `json:"items"`
}

// definition is what is read of a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Schema struct {
				OpenAPI schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// rightFields refuses a server whose kinds lack fields of this version: what is
// written to them would be thrown away without a word.
func rightFields(server openapi.Client, ours fs.FS) error {
	paths, err := server.Paths()
	if err != nil {
		return fmt.Errorf("asking for the schemas: %w", err)
	}
	path := paths["apis/"+v1alpha1.GroupVersion.String()]
	if path == nil {
		return fmt.Errorf("asking for the schema of %s: it is not served yet", v1alpha1.GroupVersion)
	}
	document, err := path.Schema("application/json")
	if err != nil {
		return fmt.Errorf("asking for the schema of %s: %w", v1alpha1.GroupVersion, err)
	}
	missing, err := lacking(document, ours)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return refuse("the cluster has Muster's kinds of another version: they lack %s: install this version's with `muster install`", few(missing))
	}
	return nil
}

// few names the first of several fields.
func few(fields []string) string {
	const shown = 4
	text := strings.Join(fields[:min(shown, len(fields))], ", ")
	if more := len(fields) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more fields", more)
	}
	return text
}

// lacking are the fields of this program's kinds that a server's document does
// not have, as Gang.spec.roles, sorted.
func lacking(document []byte, ours fs.FS) ([]string, error) {
	var theirs struct {
		Components struct {
			Schemas map[string]*schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &theirs); err != nil {
		return nil, fmt.Errorf("reading the server's schemas: %w", err)
	}
	files, err := fs.Glob(ours, "crd/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the kinds: %w", err)
	}
	var out []string
	for _, file := range files {
		text, err := fs.ReadFile(ours, file)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		var d definition
		if err := yaml.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		for i := range d.Spec.Versions {
			if v := &d.Spec.Versions[i]; v.Name == v1alpha1.GroupVersion.Version {
				kind := d.Spec.Names.Kind
				have := theirs.Components.Schemas["dev.muster."+v.Name+"."+kind]
				out = v.Schema.OpenAPI.compare(have, kind, out)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// compare adds the fields that another schema lacks. What is below metadata and
// pod templates is Kubernetes's own.
func (s *schema) compare(other *schema, path string, missing []string) []string {
	if other == nil {
		return append(missing, path)
	}
	for name, field := range s.Properties {
		if name == "metadata" || name == "template" {
			continue
		}
		missing = field.compare(other.Properties[name], path+"."+name, missing)
	}
	if s.Items != nil {
		missing = s.Items.compare(other.Items, path+"[]", missing)
	}
	return missing
}
