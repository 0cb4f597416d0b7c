package kubeflow

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
)

// job is what both kinds say.
type job struct {
	metav1.ObjectMeta

	door   *door
	policy kubeflowv1.RunPolicy
	specs  map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec
	status kubeflowv1.JobStatus
	// success and sparse are a TFJob's.
	success *kubeflowv1.SuccessPolicy
	sparse  bool
	// elastic and processes are a PyTorchJob's.
	elastic   *kubeflowv1.ElasticPolicy
	processes *string

	// strange is true for a status that Muster did not write.
	strange bool

	// replicas are the replica types that have any, in the door's order.
	replicas []replica
	// problems are what keeps the job from being run; notes name what has no
	// effect.
	problems, notes []string
}

// replica is one replica type.
type replica struct {
	kind kubeflowv1.ReplicaType
	// at is its path in the job, for messages.
	at    string
	count int32
	spec  *kubeflowv1.ReplicaSpec
}

// role is what the replica type is called in names, labels and TF_CONFIG.
func (r replica) role() string { return strings.ToLower(string(r.kind)) }

// newJob reads an object of the door's kind. What is unknown or cannot be
// honoured is among the job's problems.
func newJob(d *door, object *unstructured.Unstructured) *job {
	rest, specs := split(object.Object, d.specs)
	j, err := d.read(rest)
	j.door = d
	j.identify(object)
	readable := j.decoded("", err)
	j.specs = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec{}
	for name, content := range specs {
		var spec *kubeflowv1.ReplicaSpec
		if content, ok := content.(map[string]any); ok {
			spec = &kubeflowv1.ReplicaSpec{}
			err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, spec, true)
			readable = j.decoded("spec."+d.specs+"."+name+".", err) && readable
		}
		j.specs[kubeflowv1.ReplicaType(name)] = spec
	}
	if readable {
		j.spread()
		j.check()
	}
	slices.Sort(j.problems) // maps have no order
	return j
}

// split parts the replica types from the rest of an object: the decoder does
// not say in which of them it found something.
func split(object map[string]any, field string) (rest, specs map[string]any) {
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return object, nil
	}
	specs, ok = spec[field].(map[string]any)
	if !ok {
		return object, nil
	}
	rest, spec = maps.Clone(object), maps.Clone(spec)
	delete(spec, field)
	rest["spec"] = spec
	return rest, specs
}

// decoded enters what the decoder found below a path into the problems. It
// returns false for what cannot be read at all.
func (j *job) decoded(below string, err error) bool {
	if unknown, ok := runtime.AsStrictDecodingError(err); ok {
		for _, e := range unknown.Errors() {
			j.problem("%s", unknownField(below, e))
		}
		return true
	}
	if err != nil {
		j.problem("%s cannot be read: %v", cmp.Or(strings.TrimSuffix(below, "."), "it"), err)
	}
	return err == nil
}

// identify reads, one by one, what says whose job it is: it must be known also
// of a job that cannot be read as a whole.
func (j *job) identify(o *unstructured.Unstructured) {
	j.ObjectMeta = metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Generation: o.GetGeneration(),
		Labels: o.GetLabels(), Annotations: o.GetAnnotations(),
	}
	j.status, j.policy.ManagedBy = kubeflowv1.JobStatus{}, nil
	if by, found, err := unstructured.NestedString(o.Object, "spec", "runPolicy", "managedBy"); found || err != nil {
		j.policy.ManagedBy = &by
	}
	status, found, err := unstructured.NestedMap(o.Object, "status")
	if found && err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(status, &j.status)
	}
	j.strange = err != nil
}

func (j *job) problem(format string, args ...any) {
	j.problems = append(j.problems, fmt.Sprintf(format, args...))
}

func (j *job) note(format string, args ...any) {
	j.notes = append(j.notes, fmt.Sprintf(format, args...))
}

// older are the fields that early versions of the API had directly below spec.
var older = []string{"cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "schedulingPolicy", "suspend"}

// unknownField says in words what the decoder did not know: unknown field
// "spec.foo".
func unknownField(below string, err error) string {
	_, path, found := strings.Cut(err.Error(), `"`)
	if !found {
		return err.Error()
	}
	path = below + strings.TrimSuffix(path, `"`)
	switch name := strings.TrimPrefix(path, "spec."); {
	case slices.Contains(older, name):
		return fmt.Sprintf("%s is now spec.runPolicy.%s: move it there", path, name)
	case name == "replicaSpecs":
		return path + " is now spec.tfReplicaSpecs, a map from Chief, Worker and PS to replicas, restartPolicy and template: write it so"
	}
	return path + " is not a field that is known here: correct it, or remove it"
}

// spread lists the replica types. Their names are read in any case, as the
// training operator does.
func (j *job) spread() {
	known := map[kubeflowv1.ReplicaType]string{}
	for name, spec := range j.specs {
		at := fmt.Sprintf("spec.%s.%s", j.door.specs, name)
		i := slices.IndexFunc(j.door.types, func(t kubeflowv1.ReplicaType) bool { return strings.EqualFold(string(t), string(name)) })
		switch {
		case i < 0:
			j.problem("%s: a %s has no such replica type; it has %s", at, j.door.kind, words(j.door.types))
			continue
		case spec == nil:
			j.problem("%s is empty: give it a template", at)
			continue
		case known[j.door.types[i]] != "":
			j.problem("%s and %s are the same replica type: leave one of them", min(at, known[j.door.types[i]]), max(at, known[j.door.types[i]]))
			continue
		}
		known[j.door.types[i]] = at
		count := int32(1)
		if spec.Replicas != nil {
			count = *spec.Replicas
		}
		if count > 0 {
			j.replicas = append(j.replicas, replica{kind: j.door.types[i], at: at, count: count, spec: spec})
		}
	}
	slices.SortFunc(j.replicas, func(a, b replica) int {
		return cmp.Compare(slices.Index(j.door.types, a.kind), slices.Index(j.door.types, b.kind))
	})
}

func words(types []kubeflowv1.ReplicaType) string {
	var out []string
	for _, t := range types {
		out = append(out, string(t))
	}
	return strings.Join(out, ", ")
}

// members is how many pods the job has.
func (j *job) members() (n int32) {
	for _, r := range j.replicas {
		n += r.count
	}
	return n
}

// replica returns a replica type that has any.
func (j *job) replica(t kubeflowv1.ReplicaType) (replica, bool) {
	i := slices.IndexFunc(j.replicas, func(r replica) bool { return r.kind == t })
	if i < 0 {
		return replica{}, false
	}
	return j.replicas[i], true
}

// leader is the replica type whose end is the job's, where there is one.
func (j *job) leader() (replica, bool) {
	if r, ok := j.replica(kubeflowv1.ReplicaChief); ok {
		return r, true
	}
	return j.replica(kubeflowv1.ReplicaMaster)
}

// refusal is all that keeps the job from being run, in one message.
func (j *job) refusal() error {
	if len(j.problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(j.problems, "; "))
}
