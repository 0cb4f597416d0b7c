package origin

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestJob: the owner of a pod says which job it is of, and no volume or label does.
func TestJob(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	job := func(namespace, name string, uid types.UID) runtime.Object {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TrainingJob"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid},
		}
	}
	server := metadatafake.NewSimpleMetadataClient(scheme, job("ann", "mnist", "mnist-of-ann"), job("bob", "mnist", "mnist-of-bob"), job("bob", "bert", "bert-of-bob"))
	reads := 0
	var away error
	server.PrependReactor("get", "trainingjobs", func(k8stesting.Action) (bool, runtime.Object, error) {
		reads++
		return away != nil, nil, away
	})
	const gang = "Gang"
	for _, c := range []struct {
		name, kind, owner, label, says string
		cached                         types.UID
		want                           types.UID
		reads                          int
	}{
		{"a member", gang, "mnist", "mnist", "", "mnist-of-bob", "mnist-of-bob", 0},
		{"a member whose code is its job's", gang, "mnist", "mnist", "mnist-of-bob", "mnist-of-bob", "mnist-of-bob", 0},
		{"the watch has not shown the job", gang, "mnist", "mnist", "mnist-of-bob", "", "mnist-of-bob", 1},
		{"the watch shows an earlier job of the name", gang, "mnist", "mnist", "mnist-of-bob", "before", "mnist-of-bob", 1},
		{"it names a job of another namespace", gang, "mnist", "mnist", "mnist-of-ann", "mnist-of-bob", "mnist-of-bob", 1},
		{"it names another job of its namespace", gang, "mnist", "mnist", "bert-of-bob", "mnist-of-bob", "mnist-of-bob", 1},
		{"the job is gone", gang, "lost", "lost", "lost", "", "", 1},
		{"a pod of no controller", "", "", "mnist", "mnist-of-bob", "mnist-of-bob", "", 0},
		{"another controller", "ReplicaSet", "mnist", "mnist", "mnist-of-bob", "mnist-of-bob", "", 0},
		{"a gang of no job", gang, "mnist", "", "", "mnist-of-bob", "", 0},
		{"a label of another job", gang, "mnist", "bert", "bert-of-bob", "bert-of-bob", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			reads = 0
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "bob", Name: "p", Labels: map[string]string{v1alpha1.LabelJob: c.label}}}
			if c.kind != "" {
				yes := true
				pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: c.kind, Name: c.owner, Controller: &yes}}
			}
			if c.says != "" {
				pod.Spec.Volumes = []corev1.Volume{{Name: "code", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
					Driver: v1alpha1.CodeDriver, VolumeAttributes: map[string]string{"snapshot": "sha256:ab", "job": c.says},
				}}}}
			}
			got, err := New(server).Job(t.Context(), pod, func(key types.NamespacedName) types.UID {
				if key.Namespace != "bob" {
					t.Errorf("the job %s is looked for", key)
				}
				return c.cached
			})
			if got != c.want || err != nil || reads != c.reads {
				t.Errorf("job %q, %v, after %d reads; want %q after %d", got, err, reads, c.want, c.reads)
			}
		})
	}
	away = errors.New("the server is away")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "bob", Labels: map[string]string{v1alpha1.LabelJob: "mnist"}}}
	yes := true
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: gang, Name: "mnist", Controller: &yes}}
	if got, err := New(server).Job(t.Context(), pod, func(types.NamespacedName) types.UID { return "" }); !errors.Is(err, away) {
		t.Errorf("without a server the job is %q, %v: want an error, so that the node asks again", got, err)
	}
}
