//go:build embedded

package manager_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// A claim whose volume is made for a node is told which, because the pods of a
// gang carry theirs from the start and no scheduler binds them.
func TestClaimThatWaitsForANode(t *testing.T) {
	s := newStage(t)
	s.Node("a", 1, true)
	late := storagev1.VolumeBindingWaitForFirstConsumer
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "test.muster.dev/none", VolumeBindingMode: &late}
	if err := s.api.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	if err := s.api.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	s.run("one")
	s.Gang("train", 1, "1", func(g *v1alpha1.Gang) {
		g.Spec.Roles[0].Template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	})
	await(s, &corev1.PersistentVolumeClaimList{}, "the claim's node", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Name == "data" && c.Annotations["volume.kubernetes.io/selected-node"] == "a"
	})
}
