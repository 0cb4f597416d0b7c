package origin

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestLateMembers gives the node members of a Placement that exists, that is
// being given back, that is gone, and that has been made anew by its name.
func TestLateMembers(t *testing.T) {
	at := metav1.Now()
	placement := func(marked bool) *metav1.PartialObjectMetadata {
		p := &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Placement"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "resnet-1", UID: "now"},
		}
		if marked {
			p.DeletionTimestamp, p.Finalizers = &at, []string{v1alpha1.GangFinalizer}
		}
		return p
	}
	for _, tt := range []struct {
		name   string
		exists *metav1.PartialObjectMetadata
		from   string
		starts bool
	}{
		{"it exists", placement(false), "resnet-1 now", true},
		{"it is being given back", placement(true), "resnet-1 now", false},
		{"it is gone", nil, "resnet-1 now", false},
		{"another bears its name", placement(false), "resnet-1 before", false},
		{"the pod is nobody's member", nil, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			scheme := metadatafake.NewTestScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			var objects []runtime.Object
			if tt.exists != nil {
				objects = append(objects, tt.exists)
			}
			o := New(metadatafake.NewSimpleMetadataClient(scheme, objects...))
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "resnet-worker-0"}}
			if tt.from != "" {
				pod.Annotations = map[string]string{v1alpha1.AnnotationPlacement: tt.from}
			}
			refusal, err := o.Stands(t.Context(), pod)
			if err != nil || (refusal == nil) != tt.starts {
				t.Fatalf("refusal %v, %v; starts: want %v", refusal, err, tt.starts)
			}
			if refusal != nil && !refusal.Passing {
				t.Error("a late member must not end its gang")
			}
		})
	}
}
