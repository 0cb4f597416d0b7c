package apply

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/suggestion"
	"github.com/muster-dev/muster/internal/pachyderm"
	"github.com/muster-dev/muster/internal/pipeline"
)

// specifications reads Pachyderm's pipeline specifications, and says what of
// them changes nothing here.
func (o *options) specifications(file string, text []byte) ([]*unstructured.Unstructured, error) {
	found, notes, err := convert(text, o.mounting())
	var refused *pachyderm.RefusedError
	if errors.As(err, &refused) {
		return nil, exit.Usage("%s: Pachyderm's specifications cannot be honoured as they are (docs/pachyderm.md has every field):\n%s", file, refused)
	}
	if err != nil {
		return nil, exit.Usage("%s: %v", file, err)
	}
	for _, note := range notes {
		if _, err := fmt.Fprintf(o.factory.Streams.Err, "note: %s\n", note); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// convert makes objects of specifications, checked as pipelines are.
func convert(text []byte, mounting pachyderm.Options) ([]*unstructured.Unstructured, []pachyderm.Remark, error) {
	mounting.Suggest = suggestion.Nearest
	result, err := pachyderm.Convert(text, mounting)
	if err != nil {
		return nil, nil, err
	}
	var found []*unstructured.Unstructured
	for _, p := range result.Pipelines {
		if _, err := pipeline.Parse(p.Name, &p.Spec); err != nil {
			return nil, nil, fmt.Errorf("pipeline %s: %w", p.Name, err)
		}
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
		if err != nil {
			return nil, nil, fmt.Errorf("pipeline %s: %w", p.Name, err)
		}
		object := &unstructured.Unstructured{Object: tree}
		unstructured.RemoveNestedField(tree, "status")
		unstructured.RemoveNestedField(tree, "metadata", "creationTimestamp")
		found = append(found, object)
	}
	return found, result.Notes, nil
}

// mounting says why programs cannot be shown files at a path of their own, or
// nothing where they can, and whether those in images can.
func (o *options) mounting() pachyderm.Options {
	home, embedded, err := o.factory.EmbeddedHome()
	if err != nil || !embedded {
		return pachyderm.Options{}
	}
	state, alive, err := instance.Home(home).Read()
	if err != nil || !alive || state.Tier != string(configuration.TierPlain) {
		return pachyderm.Options{}
	}
	return pachyderm.Options{
		Unmountable: "this Muster is in the plain tier, where programs see the machine's own files", Images: strings.HasPrefix(state.Images, "through "),
	}
}
