package door

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/environment/bundle"
)

// sendEnvironment answers with an environment, or to HEAD that it is there.
func (d *Door) sendEnvironment(w http.ResponseWriter, r *http.Request, caller Caller) error {
	namespace, key := r.PathValue("namespace"), r.PathValue("key")
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	if caller.Node == "" {
		if err := caller.speaksFor(namespace); err != nil {
			return err
		}
	} else if _, err := d.podWith(ctx, caller, namespace, key, uses); err != nil {
		return err
	}
	if d.opts.Code == nil {
		return refuse(http.StatusServiceUnavailable, noStore)
	}
	packed, err := d.opts.Code.Environment(ctx, namespace, key)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Content-Length", strconv.FormatInt(packed.Size, 10))
	if r.Method == http.MethodHead {
		return nil
	}
	in, err := d.opts.Code.OpenEnvironment(ctx, namespace, key, packed)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if _, err := io.Copy(w, in); err != nil {
		return fmt.Errorf("sending environment %s of namespace %s: %w", key, namespace, err)
	}
	return nil
}

// takeEnvironment takes an environment from the node on which it was built. Why
// it is not taken is told to the pod that built it, too, which somebody waits
// for.
func (d *Door) takeEnvironment(w http.ResponseWriter, r *http.Request, caller Caller) error {
	namespace, key := r.PathValue("namespace"), r.PathValue("key")
	if caller.Node == "" {
		return refuse(http.StatusForbidden, "environments come from the nodes on which they are built, and from nobody else")
	}
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	pod, err := d.podWith(ctx, caller, namespace, key, builds)
	if err != nil {
		return err
	}
	if d.opts.Code == nil {
		return refuse(http.StatusServiceUnavailable, noStore)
	}
	err = d.opts.Code.ReceiveEnvironment(ctx, namespace, key, r.Body)
	if errors.Is(err, depot.ErrQuota) {
		return errors.Join(err, d.blame(ctx, pod, err.Error()))
	}
	if err != nil {
		return err
	}
	d.opts.Log.Info("an environment was stored", "namespace", namespace, "key", key)
	w.WriteHeader(http.StatusCreated)
	return nil
}

// blame writes on a build why what it made is not taken.
func (d *Door) blame(ctx context.Context, pod *corev1.Pod, text string) error {
	after := pod.DeepCopy()
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	after.Annotations[v1alpha1.AnnotationRefused] = text
	if err := d.opts.API.Patch(ctx, after, client.MergeFrom(pod)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("telling pod %s: %w", pod.Name, err)
	}
	return nil
}

// podWith is a pod of a namespace on the caller's node that has an environment,
// in a way.
func (d *Door) podWith(ctx context.Context, caller Caller, namespace, key string, how func(*corev1.Pod, *corev1.CSIVolumeSource) bool) (*corev1.Pod, error) {
	if err := bundle.CheckKey(key); err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	var pods corev1.PodList
	if err := d.opts.Pods.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("looking for the pod that has the environment: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != caller.Node {
			continue
		}
		for j := range pod.Spec.Volumes {
			csi := pod.Spec.Volumes[j].CSI
			if csi != nil && csi.Driver == v1alpha1.EnvironmentDriver && csi.VolumeAttributes["key"] == key && how(pod, csi) {
				return pod, nil
			}
		}
	}
	return nil, &Refusal{
		Status: http.StatusForbidden, RetryAfter: time.Second,
		Text: fmt.Sprintf("no pod of namespace %s on node %s has the environment %s in this way", namespace, caller.Node, key),
	}
}

// uses is a pod that has an environment that is there.
func uses(*corev1.Pod, *corev1.CSIVolumeSource) bool { return true }

// builds is a pod by which Muster has an environment built.
func builds(pod *corev1.Pod, volume *corev1.CSIVolumeSource) bool {
	return pod.Labels[v1alpha1.LabelBuild] != "" && volume.VolumeAttributes["build"] == "true"
}
