//go:build clients

package rendezvous

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// python has TensorFlow 2: an environment of the tests of clients.
const python = "../../bin/s3-clients/tensorflow/bin/python"

// serve does the same as a script of TensorFlow 2 with TF_CONFIG: it reads its cluster and serves
// its task.
const serve = `
import tensorflow as tf
r = tf.distribute.cluster_resolver.TFConfigClusterResolver()
s = tf.distribute.Server(r.cluster_spec(), job_name=r.task_type, task_index=r.task_id, protocol="grpc")
print(r.task_type, r.task_id, "serves", s.target.decode() if isinstance(s.target, bytes) else s.target)
`

// TestTensorFlowServesASparseCluster: the servers of TensorFlow 2 start from the
// TF_CONFIG of a sparse cluster, as every role and index.
func TestTensorFlowServesASparseCluster(t *testing.T) {
	program, err := filepath.Abs(python)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is missing; run hack/clients-deps", python)
	}
	gang := Gang{Name: "g", Framework: v1alpha1.FrameworkTensorFlow, Sparse: true, Members: members("ps", "ps", "worker", "worker")}
	for i := range gang.Members {
		gang.Members[i].Port = free(t)
	}
	for _, m := range gang.Members {
		vars, err := render(gang, m.Role, m.Index)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), program, "-c", serve)
		cmd.Env = append(os.Environ(), "TF_CPP_MIN_LOG_LEVEL=3", "CUDA_VISIBLE_DEVICES=", "TF_CONFIG="+asMap(vars)["TF_CONFIG"])
		out, err := cmd.CombinedOutput()
		if want := "serves grpc://" + m.address(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s-%d of %s: %v, want %q\n%s", m.Role, m.Index, asMap(vars)["TF_CONFIG"], err, want, out)
		}
	}
}

// free returns a TCP port that nobody listens on.
func free(t *testing.T) int32 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return int32(listener.Addr().(*net.TCPAddr).Port)
}
