package transcript

import (
	"context"
	"io"
	"time"

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

// Kept says which part of an archive is wanted.
type Kept struct {
	// Pod is the name; several pods may have borne it, one after the other.
	Pod string
	// Which of them.
	Which Which
	// Container is the member's; empty: all containers.
	Container string
	// Since leaves out older lines; zero: none.
	Since time.Time
	// Tail is how many of the last lines to read; negative: all.
	Tail int
}

// Which chooses among the pods that bore one name.
type Which int

// The choices.
const (
	// All of them, the oldest first.
	All Which = iota
	// Latest is the last of them.
	Latest
	// Earlier is all but the last.
	Earlier
)
