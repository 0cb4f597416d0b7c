package volumeclaim

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Provisioner is the name by which StorageClasses ask for this package.
	Provisioner = "muster.dev/local"
	// StorageClass is the name of the class that embedded Muster makes.
	StorageClass = "muster-local"

	// finalizer keeps a volume's object until its folder is gone, also where
	// somebody deletes the object by hand.
	finalizer = "muster.dev/volume-folder"
	// annotationProvisionedBy tells the binder that the volume is ours to
	// remove.
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
)

// maxName is the longest name of a folder that file systems take.
const maxName = 255

// folderOf is the claim's folder, relative to the volumes' folder. The UID
// makes it the claim's alone, whatever was called the same before.
func folderOf(claim *corev1.PersistentVolumeClaim) (string, error) {
	name, uid := claim.Name, string(claim.UID)
	if most := maxName - len(uid) - 1; len(name) > most {
		name = name[:max(most, 0)]
	}
	folder := filepath.Join(claim.Namespace, name+"-"+uid)
	if !safe(folder) || uid == "" {
		return "", fmt.Errorf("a claim named %q in namespace %q, UID %q, cannot be a folder", claim.Name, claim.Namespace, uid)
	}
	return folder, nil
}

// safe reports whether a relative path is a folder in a folder, and neither
// leads elsewhere nor hides.
func safe(folder string) bool {
	parts := strings.Split(folder, string(filepath.Separator))
	if len(parts) != 2 || filepath.Clean(folder) != folder || strings.ContainsRune(folder, 0) {
		return false
	}
	return parts[0] != "" && parts[1] != "" && parts[0][0] != '.' && parts[1][0] != '.'
}

// wanted reports whether the claim waits for this provisioner.
func wanted(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) bool {
	return class != nil && class.Provisioner == Provisioner &&
		claim.DeletionTimestamp.IsZero() && claim.Spec.VolumeName == "" &&
		(claim.Status.Phase == "" || claim.Status.Phase == corev1.ClaimPending)
}

// refusal says what of a claim cannot be honoured; it is empty for a claim
// that can be served.
func refusal(claim *corev1.PersistentVolumeClaim) string {
	switch {
	case claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode != corev1.PersistentVolumeFilesystem:
		return fmt.Sprintf("volumeMode %s cannot be had here: volumes are folders; use Filesystem", *claim.Spec.VolumeMode)
	case claim.Spec.Selector != nil:
		return "a selector cannot be honoured: volumes are made for their claim; remove it"
	case claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil:
		return "a data source cannot be honoured: volumes begin empty; remove it and copy the data in"
	}
	return ""
}

// volumeFor is the volume that serves the claim.
func volumeFor(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, path, node string) *corev1.PersistentVolume {
	policy := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	folder := corev1.HostPathDirectory
	mode := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "pvc-" + string(claim.UID),
			Annotations: map[string]string{annotationProvisionedBy: Provisioner},
			Finalizers:  []string{finalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeReclaimPolicy: policy,
			StorageClassName:              class.Name,
			MountOptions:                  class.MountOptions,
			VolumeMode:                    &mode,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &folder}},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
}

// atHome is the full path of a volume's folder: below dir, if it is the folder of
// the volume's claim, also where the volume was made in a home that has been moved
// since, or restored from a backup elsewhere.
func atHome(volume *corev1.PersistentVolume, dir string) string {
	path, ref := volume.Spec.HostPath.Path, volume.Spec.ClaimRef
	if ref == nil {
		return path
	}
	folder, err := folderOf(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}})
	if err != nil || !strings.HasSuffix(path, string(filepath.Separator)+folder) {
		return path
	}
	return filepath.Join(dir, folder)
}

// fate is what becomes of a volume.
type fate struct {
	// removeFolder and deleteVolume follow from a release; letGo removes the
	// finalizer.
	removeFolder, deleteVolume, letGo bool
}

// fateOf decides. claimGone is true where the claim that the volume names, by
// UID, is known not to exist.
func fateOf(volume *corev1.PersistentVolume, claimGone bool) fate {
	if volume.Annotations[annotationProvisionedBy] != Provisioner {
		return fate{}
	}
	held := slices.Contains(volume.Finalizers, finalizer)
	deleting := !volume.DeletionTimestamp.IsZero()
	deletes := volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	released := volume.Status.Phase == corev1.VolumeReleased || volume.Status.Phase == corev1.VolumeFailed
	switch {
	case deleting && !held:
		return fate{}
	case deleting && !claimGone:
		return fate{} // still in use; the claim's end comes back here
	case deleting:
		return fate{removeFolder: deletes, letGo: true}
	case released && claimGone && deletes:
		return fate{removeFolder: true, deleteVolume: true} // which comes back here, to let go
	}
	return fate{}
}
