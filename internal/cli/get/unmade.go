package get

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/kind"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/output"
)

// mostUnmade is the most jobs without a TrainingJob that are read of a kind.
const mostUnmade = 50

// addUnmade adds rows to the table of training jobs for the TFJobs and PyTorchJobs of
// which none was made, because they were refused or wait for something. Only the tables
// of their states are read, and those objects that have failed or not begun.
func (t *tables) addUnmade(ctx context.Context, serializers runtime.NegotiatedSerializer, table *metav1.Table) error {
	if t.wanted.Mapping.GroupVersionKind.GroupKind() != kind.TrainingJobs || *t.options.format == output.Name || len(table.ColumnDefinitions) == 0 {
		return nil
	}
	made := map[string]bool{}
	for i := range table.Rows {
		m, err := rowMetadata(&table.Rows[i])
		if err != nil {
			return err
		}
		made[m.Namespace+"/"+m.Name] = true
	}
	client, err := t.options.factory.REST(kubeflowv1.GroupVersion, serializers)
	if err != nil {
		return err
	}
	for _, resource := range []string{"tfjobs", "pytorchjobs"} {
		suspects, err := t.suspects(ctx, client, resource, made)
		if err != nil {
			return err
		}
		if more := len(suspects) - mostUnmade; more > 0 {
			_, _ = fmt.Fprintf(t.options.factory.Streams.Err, "%d more %s without a training job are not shown: muster get %[2]s lists them.\n", more, resource)
			suspects = suspects[:mostUnmade]
		}
		for _, one := range suspects {
			if err := t.addSuspect(ctx, client, resource, one, table); err != nil {
				return err
			}
		}
	}
	return nil
}

// suspects are the jobs of a kind that may have no TrainingJob: those of no row, by their
// states. A server that does not serve the kind, or not to this user, has none.
func (t *tables) suspects(ctx context.Context, client *rest.RESTClient, resource string, made map[string]bool) ([]*metav1.PartialObjectMetadata, error) {
	request := client.Get().Resource(resource).SetHeader("Accept", asTable).Param("includeObject", string(metav1.IncludeMetadata))
	if namespace := t.options.scope(t.wanted); namespace != "" {
		request = request.Namespace(namespace)
	}
	if t.options.selector != "" {
		request = request.Param("labelSelector", t.options.selector)
	}
	raw, err := request.Do(ctx).Raw()
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", resource, err)
	}
	states := &metav1.Table{}
	if err := json.Unmarshal(raw, states); err != nil {
		return nil, fmt.Errorf("reading the server's table: %w", err)
	}
	state := slices.IndexFunc(states.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == "State" })
	var out []*metav1.PartialObjectMetadata
	for i := range states.Rows {
		m, err := rowMetadata(&states.Rows[i])
		if err != nil {
			return nil, err
		}
		if made[m.Namespace+"/"+m.Name] {
			continue
		}
		if state >= 0 && state < len(states.Rows[i].Cells) {
			switch word, _ := states.Rows[i].Cells[state].(string); kubeflowv1.ConditionType(word) {
			case kubeflowv1.JobFailed, kubeflowv1.JobCreated, "":
			default:
				continue
			}
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *metav1.PartialObjectMetadata) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	return out, nil
}

// addSuspect adds the row of a job if Muster runs it and it has no TrainingJob.
func (t *tables) addSuspect(ctx context.Context, client *rest.RESTClient, resource string, of *metav1.PartialObjectMetadata, table *metav1.Table) error {
	raw, err := client.Get().Resource(resource).Namespace(of.Namespace).Name(of.Name).Do(ctx).Raw()
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", resource, of.Name, err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		return fmt.Errorf("reading %s %s: %w", resource, of.Name, err)
	}
	u, ours := member.UnmadeOf(object)
	if !ours {
		return nil
	}
	if t.options.selector != "" && !u.Refused {
		// Its TrainingJob may be there, without the labels.
		server, err := t.options.factory.Client()
		if err != nil {
			return err
		}
		if _, err := member.Job(ctx, server, u.Namespace, u.Name); err == nil {
			return nil
		}
	}
	table.Rows = append(table.Rows, unmadeRow(u, table.ColumnDefinitions, time.Now()))
	return nil
}

// unmadeRow is the row of a job without a TrainingJob in the table of these.
func unmadeRow(u member.Unmade, columns []metav1.TableColumnDefinition, now time.Time) metav1.TableRow {
	row := metav1.TableRow{Cells: make([]any, len(columns))}
	for i := range columns {
		switch columns[i].Name {
		case "Name":
			row.Cells[i] = u.Reference()
		case "Phase":
			row.Cells[i] = u.Phase
		case "Reason":
			row.Cells[i] = u.Reason
		case "Age":
			row.Cells[i] = duration.HumanDuration(now.Sub(u.Created))
		default:
			row.Cells[i] = ""
		}
	}
	metadata := metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: u.Name, Labels: u.Labels},
	}
	row.Object.Raw, _ = json.Marshal(metadata) // strings and maps of them
	return row
}

// columns are those of the table of training jobs that -o wide does not add.
var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name"}, {Name: "Phase", Type: "string"}, {Name: "Reason", Type: "string"}, {Name: "Age", Type: "string"},
}

// withUnmade adds jobs without a TrainingJob to the table of those that were named; nil
// if there is none of these.
func withUnmade(all *metav1.Table, unmade []member.Unmade) *metav1.Table {
	if all == nil {
		all = &metav1.Table{ColumnDefinitions: columns}
	}
	for _, u := range unmade {
		all.Rows = append(all.Rows, unmadeRow(u, all.ColumnDefinitions, time.Now()))
	}
	return all
}

// unmade returns the job of Kubeflow of that name, where a training job was named, Muster
// runs it and no training job was made of it.
func (o *options) unmade(ctx context.Context, one kind.Wanted, name string) (member.Unmade, bool) {
	if one.Mapping.GroupVersionKind.GroupKind() != kind.TrainingJobs {
		return member.Unmade{}, false
	}
	server, err := o.factory.Client()
	if err != nil {
		return member.Unmade{}, false
	}
	object := member.Foreign(ctx, server, o.scope(one), name)
	if object == nil {
		return member.Unmade{}, false
	}
	return member.UnmadeOf(object)
}

// missing is the error for an object that could not be read. Of a training job that was
// not made of its TFJob or PyTorchJob it says why.
func (o *options) missing(ctx context.Context, one kind.Wanted, name string, err error) error {
	if apierrors.IsNotFound(err) {
		if u, is := o.unmade(ctx, one, name); is {
			return exit.NotFound("the %s %s has no training job: %s. Its own object is %s", u.Kind, name, u.Sentence(), u.Reference())
		}
	}
	return o.explain(one, name, err)
}
