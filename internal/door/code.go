package door

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/internal/turns"
)

// noStore is what is told where code is kept nowhere.
const noStore = "there is no store for code on this cluster: an administrator sets one with `muster install --set agent.create=true,store.persistentVolumeClaim=NAME`" +
	" or `--set agent.create=true,store.s3.endpoint=...,store.s3.bucket=...,store.s3.secret=...`; until then put the code into an image and name it" +
	" (muster run --image IMAGE --code none)"

// sendCode answers with a snapshot, or to HEAD that it is there.
func (d *Door) sendCode(w http.ResponseWriter, r *http.Request, caller Caller) error {
	namespace, digest := r.PathValue("namespace"), r.PathValue("digest")
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	if err := d.mayRead(ctx, caller, namespace, digest); err != nil {
		return err
	}
	if d.opts.Code == nil {
		return refuse(http.StatusServiceUnavailable, noStore)
	}
	parcel, err := d.opts.Code.Parcel(ctx, namespace, digest)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-tar")
	if r.Method == http.MethodHead {
		return nil
	}
	if err := d.opts.Code.Write(ctx, namespace, parcel, w); err != nil {
		return fmt.Errorf("sending %s of namespace %s: %w", digest, namespace, err)
	}
	return nil
}

// takeCode takes a snapshot, or a part of one.
func (d *Door) takeCode(w http.ResponseWriter, r *http.Request, caller Caller) error {
	namespace, digest := r.PathValue("namespace"), r.PathValue("digest")
	if err := caller.speaksFor(namespace); err != nil {
		return err
	}
	if d.opts.Code == nil {
		return refuse(http.StatusServiceUnavailable, noStore)
	}
	if err := source.CheckDigest(digest); err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	// A tar's headers, and the list, come on top of the files.
	const most = source.DefaultMaxBytes + source.MaxListBytes + source.DefaultMaxFiles*4096
	missing, err := d.opts.Code.Receive(ctx, namespace, digest, http.MaxBytesReader(w, r.Body, most))
	switch {
	case err != nil:
		return err
	case len(missing) > 0:
		send(w, http.StatusConflict, trouble{Error: fmt.Sprintf("%d contents are missing: send them with the list", len(missing)), Missing: missing})
	default:
		d.opts.Log.Info("code was stored", "namespace", namespace, "snapshot", digest)
		w.WriteHeader(http.StatusCreated)
	}
	return nil
}

// mayRead says whether a caller may read a snapshot of a namespace: who speaks
// for it may, and the agent of a node on which a pod of it names that.
func (d *Door) mayRead(ctx context.Context, caller Caller, namespace, digest string) error {
	if caller.Node == "" {
		return caller.speaksFor(namespace)
	}
	var pods corev1.PodList
	if err := d.opts.Pods.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("looking for the pod that needs the code: %w", err)
	}
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == caller.Node && needs(&pods.Items[i], digest) {
			return nil
		}
	}
	return &Refusal{
		Status: http.StatusForbidden, RetryAfter: time.Second,
		Text: fmt.Sprintf("no pod of namespace %s on node %s names the code %s", namespace, caller.Node, digest),
	}
}

func needs(pod *corev1.Pod, digest string) bool {
	for i := range pod.Spec.Volumes {
		csi := pod.Spec.Volumes[i].CSI
		if csi != nil && csi.Driver == v1alpha1.CodeDriver && csi.VolumeAttributes["snapshot"] == digest {
			return true
		}
	}
	return false
}

// steady is an answer that is broken off once nobody takes any of it for a
// while, or its turn is lost.
type steady struct {
	http.ResponseWriter
	turn  *turns.Turn
	begun bool
}

// Write implements [io.Writer].
func (s *steady) Write(p []byte) (int, error) {
	s.begun = true
	return s.turn.Move(http.NewResponseController(s.ResponseWriter).SetWriteDeadline, func() (int, error) { return s.ResponseWriter.Write(p) })
}

// Unwrap is for [http.ResponseController].
func (s *steady) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// arriving is a body that is given up once nothing of it comes for a while, or
// its turn is lost.
type arriving struct {
	io.ReadCloser
	turn    *turns.Turn
	control *http.ResponseController
}

// Read implements [io.Reader].
func (a *arriving) Read(p []byte) (int, error) {
	return a.turn.Move(a.control.SetReadDeadline, func() (int, error) { return a.ReadCloser.Read(p) })
}
