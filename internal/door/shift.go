package door

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/foreman/shift"
)

// passShift hands what a worker of a stage says to who gives out datums, once the
// agent of its node has shown that the worker's pod is one of that work.
func (d *Door) passShift(w http.ResponseWriter, r *http.Request, caller Caller) error {
	namespace, pod, rest := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("rest")
	if caller.Node == "" {
		return refuse(http.StatusForbidden, "workers of pipelines are heard by way of the agent of their node")
	}
	var handler http.Handler
	if d.opts.Shifts != nil {
		handler = d.opts.Shifts(namespace)
	}
	if handler == nil {
		w.Header().Set("Connection", "close") // the next try may meet another replica
		return refuse(http.StatusServiceUnavailable, "this replica gives out no datums: another one does, or none yet")
	}
	work, _, _ := strings.Cut(rest, "/")
	who, err := d.computes(r.Context(), caller.Node, namespace, pod, work)
	if err != nil {
		return err
	}
	in := r.Clone(r.Context())
	in.URL.Path, in.URL.RawPath = shift.Path+rest, ""
	Introduce(in.Header, who, work)
	handler.ServeHTTP(w, in)
	return nil
}

// Introduce says who a pod is that computes a work, whatever was said before.
func Introduce(header http.Header, pod *corev1.Pod, work string) {
	for _, name := range []string{shift.MemberHeader, shift.PodHeader, shift.BornHeader, shift.JobHeader, shift.AttemptHeader} {
		header.Del(name)
	}
	role, index := pod.Labels[v1alpha1.LabelRole], pod.Labels[v1alpha1.LabelIndex]
	if role == "" || index == "" {
		return
	}
	header.Set(shift.MemberHeader, role+"/"+index)
	header.Set(shift.PodHeader, string(pod.UID))
	header.Set(shift.BornHeader, strconv.FormatInt(pod.CreationTimestamp.Unix(), 10))
	if attempt := pod.Labels[v1alpha1.LabelAttempt]; attempt != "" {
		header.Set(shift.AttemptHeader, attempt)
	}
	if job := postOf(pod, work).VolumeAttributes[shift.JobAttribute]; job != "" {
		header.Set(shift.JobHeader, job)
	}
}

// computes finds the pod on the node that computes a work, if it does.
func (d *Door) computes(ctx context.Context, node, namespace, uid, work string) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := d.opts.Pods.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("looking for the pod that computes: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if string(pod.UID) != uid || pod.Spec.NodeName != node {
			continue
		}
		if postOf(pod, work) != nil {
			return pod, nil
		}
	}
	return nil, refuse(http.StatusForbidden, "no pod of namespace %s on node %s with the UID %s computes %s", namespace, node, uid, work)
}

// postOf is the volume by which a pod reaches who gives out a work; nil: there is none.
func postOf(pod *corev1.Pod, work string) *corev1.CSIVolumeSource {
	for i := range pod.Spec.Volumes {
		csi := pod.Spec.Volumes[i].CSI
		if csi != nil && csi.Driver == v1alpha1.StageDriver && csi.VolumeAttributes["work"] == work {
			return csi
		}
	}
	return nil
}
