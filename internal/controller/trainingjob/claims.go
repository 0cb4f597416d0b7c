package trainingjob

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// checkpointsName ends the name of the claim for checkpoints and logs.
const checkpointsName = "checkpoints"

// defaultCheckpoints is the size of that claim.
var defaultCheckpoints = resource.MustParse("10Gi")

// claimsOf are the claims that are made for the job and go with it. All of
// them can be written by many members at once.
func claimsOf(job *v1alpha1.TrainingJob) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	if size := checkpointClaim(job); size != nil {
		out = append(out, claim(job, checkpointsName, *size))
	}
	for _, v := range job.Spec.Volumes {
		if v.Size != nil {
			out = append(out, claim(job, v.Name, *v.Size))
		}
	}
	return out
}

// keepsNothing reports whether the job wants no folder that survives its pods.
func keepsNothing(job *v1alpha1.TrainingJob) bool {
	return job.Spec.Checkpoints != nil && job.Spec.Checkpoints.None
}

// checkpointClaim is the size of the checkpoints' claim; nil where the user
// names one or wants none.
//
// Unless its owner says otherwise every job gets a claim, also one of a single member that is not restarted
// and names no framework. What a script writes to MUSTER_CHECKPOINT_DIR must
// be there after a suspension, after the loss of a node, and once the job has
// ended, for all of which its pod may be gone; whether it writes there is not
// known before it did; and a folder that survives for some jobs only is found
// out by losing a model. The claim costs no waiting, because its folder is made
// while the gang is scheduled, and no disk, because its size is not reserved;
// it goes with the job.
func checkpointClaim(job *v1alpha1.TrainingJob) *resource.Quantity {
	switch c := job.Spec.Checkpoints; {
	case c == nil:
		return &defaultCheckpoints
	case c.Claim != "", c.None:
		return nil
	case c.Size != nil:
		return c.Size
	}
	return &defaultCheckpoints
}

// checkpointClaimName is the claim that checkpoints and logs are kept in.
func checkpointClaimName(job *v1alpha1.TrainingJob) string {
	if c := job.Spec.Checkpoints; c != nil && c.Claim != "" {
		return c.Claim
	}
	return job.Name + "-" + checkpointsName
}

// volumeClaimName is the claim behind one of the job's volumes.
func volumeClaimName(job *v1alpha1.TrainingJob, v *v1alpha1.JobVolume) string {
	if v.Claim != "" {
		return v.Claim
	}
	return job.Name + "-" + v.Name
}

func claim(job *v1alpha1.TrainingJob, suffix string, size resource.Quantity) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: owned(job, job.Name+"-"+suffix),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
}

// owned is the metadata of what belongs to the job and goes with it.
func owned(job *v1alpha1.TrainingJob, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:       job.Namespace,
		Name:            name,
		Labels:          map[string]string{v1alpha1.LabelJob: job.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, v1alpha1.GroupVersion.WithKind("TrainingJob"))},
	}
}
