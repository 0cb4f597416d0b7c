package transcript

import (
	"context"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// Source opens the logs of one pod that the server knows.
type Source interface {
	// Open reads a pod's log as options say. The error is the server's: not
	// found for a pod that is gone, a bad request for one that has not begun.
	Open(ctx context.Context, namespace, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error)
}

// Server is the Source that asks the API server.
type Server struct{ Set kubernetes.Interface }

// Open implements [Source].
func (s Server) Open(ctx context.Context, namespace, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error) {
	return s.Set.CoreV1().Pods(namespace).GetLogs(pod, options).Stream(ctx)
}

// Archive holds the logs of the pods of one job that are gone.
type Archive interface {
	// Pods lists the names of the pods that it holds.
	Pods() ([]string, error)
	// Open reads a pod's log, every line with its time. fs.ErrNotExist: it
	// holds none.
	Open(Kept) (io.ReadCloser, error)
}
