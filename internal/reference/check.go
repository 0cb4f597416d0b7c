package reference

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Checker looks up the objects that pods name. Its methods may be called side by side.
type Checker struct {
	// Reader reads claims, volumes and storage classes; it may lag behind.
	Reader client.Reader
	// Live reads past any cache.
	Live client.Reader
	// Contents reports that Live may read the Secrets and ConfigMaps of every namespace. If it may
	// not, Checker assumes that they exist, and a kubelet reports a missing one.
	Contents bool
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// makes is the time in which a storage class should make the volume of a claim; a pod need not wait
// for that before it gets a node.
const makes = 10 * time.Second

// Missing returns a sentence about the references of a pod that are missing; empty: none is known.
// The error is of a reader that could not answer.
func (c Checker) Missing(ctx context.Context, namespace string, spec *corev1.PodSpec) (string, error) {
	var missing []string
	add := func(what string, err error) error {
		if what != "" && !slices.Contains(missing, what) {
			missing = append(missing, what)
		}
		return err
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if source := v.PersistentVolumeClaim; source != nil {
			if err := add(c.claim(ctx, namespace, source.ClaimName)); err != nil {
				return "", err
			}
		}
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			if err := add(c.class(ctx, "volume "+v.Name, v.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName, c.now())); err != nil {
				return "", err
			}
		}
	}
	if c.Contents {
		for _, r := range contents(spec) {
			if err := add(c.content(ctx, namespace, r)); err != nil {
				return "", err
			}
		}
	}
	return strings.Join(missing, "; "), nil
}

// claim returns the fault of a claim, in words; empty: it can be used.
func (c Checker) claim(ctx context.Context, namespace, name string) (string, error) {
	key, claim := client.ObjectKey{Namespace: namespace, Name: name}, &corev1.PersistentVolumeClaim{}
	err := c.Reader.Get(ctx, key, claim)
	if apierrors.IsNotFound(err) {
		err = c.Live.Get(ctx, key, claim)
	}
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("it names the claim %s, which is not there (namespace %s)", name, namespace), nil
	case err != nil:
		return "", fmt.Errorf("reading claim %s: %w", key, err)
	case claim.DeletionTimestamp != nil:
		return fmt.Sprintf("its claim %s is being deleted", name), nil
	case claim.Status.Phase == corev1.ClaimLost:
		return fmt.Sprintf("its claim %s has lost its volume %s", name, claim.Spec.VolumeName), nil
	case claim.Status.Phase == corev1.ClaimBound || claim.Spec.VolumeName != "":
		return "", nil
	}
	return c.class(ctx, "claim "+name, claim.Spec.StorageClassName, claim.CreationTimestamp.Time)
}

// unclassed is the API's spelling of a claim that no class makes a volume for.
const unclassed = ""

func (c Checker) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// class is the reason why a claim without a volume, made at that time, gets none before its pod has
// a node.
func (c Checker) class(ctx context.Context, whose string, name *string, made time.Time) (string, error) {
	switch {
	case name == nil:
		return fmt.Sprintf("its %s has no volume: it names no storage class, and the cluster has no default one", whose), nil
	case *name == unclassed:
		return fmt.Sprintf("its %s has no volume yet, and no storage class makes one: create a PersistentVolume for it", whose), nil
	}
	class := &storagev1.StorageClass{}
	err := c.Reader.Get(ctx, client.ObjectKey{Name: *name}, class)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("its %s has no volume: there is no storage class %s%s", whose, *name, c.classes(ctx)), nil
	case err != nil:
		return "", fmt.Errorf("reading storage class %s: %w", *name, err)
	case class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer, c.now().Sub(made) < makes:
		return "", nil
	}
	return fmt.Sprintf("its %s has no volume yet: storage class %s (%s) has not made one", whose, *name, class.Provisioner), nil
}

// mostClasses is the number of storage classes that are named at most.
const mostClasses = 5

// classes lists the existing storage classes; "" if they cannot be read.
func (c Checker) classes(ctx context.Context) string {
	list := &storagev1.StorageClassList{}
	if err := c.Reader.List(ctx, list); err != nil || len(list.Items) == 0 || len(list.Items) > mostClasses {
		return ""
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
		if list.Items[i].Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			names[i] += " (the default, without storageClassName)"
		}
	}
	slices.Sort(names)
	return "; there are " + strings.Join(names, ", ")
}
