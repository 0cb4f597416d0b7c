//go:build clients

package gateway

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// programs is where the clients are that `make clients-deps` installs.
const programs = "../../bin/s3-clients/bin"

// client runs a client that nobody has modified, with a user's settings.
func (r *rig) run(t *testing.T, program string, args ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(programs, program))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: `make clients-deps` installs it", err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
	cmd.Env = append(cmd.Env, "AWS_ENDPOINT_URL="+r.address, "AWS_ACCESS_KEY_ID=ALICE", "AWS_SECRET_ACCESS_KEY=wonderland",
		"AWS_DEFAULT_REGION="+Region, "AWS_EC2_METADATA_DISABLED=true", "HOME="+t.TempDir())
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, &out, &complaints)
	}
	return out.String()
}

// TestPython runs boto3, s3fs and pandas.
func TestPython(t *testing.T) {
	r := newRig(t)
	r.run(t, "python3", "testdata/clients.py")
}

// TestTensorFlow runs TensorFlow's reader of S3.
func TestTensorFlow(t *testing.T) {
	r := newRig(t)
	if out := r.run(t, "../tensorflow/bin/python3", "testdata/tensorflow_reader.py"); !strings.Contains(out, "read, written, copied and removed") {
		t.Error(out)
	}
}

// TestAWS runs the command line of AWS.
func TestAWS(t *testing.T) {
	r := newRig(t)
	dir, back := t.TempDir(), t.TempDir()
	long := make([]byte, 20<<20)
	for i := range long {
		long[i] = byte(rand.Uint32())
	}
	writeTree(t, dir, map[string]string{"a.txt": "a", "train/b.txt": "b", "train/deep/c.txt": "c", "long.bin": string(long)})
	r.run(t, "aws", "s3", "sync", dir, "s3://digits/main/images")
	if out := r.run(t, "aws", "s3", "ls", "s3://digits/"); !strings.Contains(out, "PRE main/") {
		t.Error(out)
	}
	if out := r.run(t, "aws", "s3", "ls", "--recursive", "s3://digits/main/images/"); !strings.Contains(out, "main/images/train/deep/c.txt") {
		t.Error(out)
	}
	r.run(t, "aws", "s3", "cp", "--recursive", "s3://digits/main/images", back)
	for _, name := range []string{"a.txt", "train/b.txt", "train/deep/c.txt", "long.bin"} {
		want, _ := os.ReadFile(filepath.Join(dir, name))
		if got, err := os.ReadFile(filepath.Join(back, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s came back with %d bytes, %v", name, len(got), err)
		}
	}
	r.run(t, "aws", "s3", "mv", "s3://digits/main/images/a.txt", "s3://digits/main/moved.txt")
	r.run(t, "aws", "s3", "rm", "--recursive", "s3://digits/main/images/train")
	if got, want := strings.Join(r.keys(t, "", ""), " "), "main/images/long.bin main/moved.txt"; got != want {
		t.Errorf("left: %s", got)
	}
}

// TestRclone runs rclone, which looks at sizes, as there are no times.
func TestRclone(t *testing.T) {
	r := newRig(t)
	dir, back := t.TempDir(), t.TempDir()
	writeTree(t, dir, map[string]string{"a.txt": "a", "train/b c.txt": "b", "train/deep/\u00e4.txt": "c", "long.bin": strings.Repeat("0123456789", 1<<20)})
	remote := func(path string) string { return ":s3:digits/" + path }
	rclone := func(args ...string) string {
		return r.run(t, "rclone", append(args, "--s3-provider", "Other", "--s3-env-auth", "--s3-endpoint", r.address, "--s3-upload-cutoff", "5Mi")...)
	}
	rclone("sync", "--size-only", dir, remote("main/images"))
	before, err := r.dataset(t).Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	rclone("sync", "--size-only", dir, remote("main/images"))
	if again, err := r.dataset(t).Resolve(t.Context(), "main"); err != nil || again.ID != before.ID {
		t.Errorf("the same again made another commit: %v", err)
	}
	rclone("copy", remote("main/images"), back)
	rclone("check", "--download", dir, remote("main/images"))
	for _, name := range []string{"a.txt", "train/b c.txt", "train/deep/\u00e4.txt", "long.bin"} {
		want, _ := os.ReadFile(filepath.Join(dir, name))
		if got, err := os.ReadFile(filepath.Join(back, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s came back with %d bytes, %v", name, len(got), err)
		}
	}
	if out := rclone("lsf", remote("")); out != "main/\n" {
		t.Errorf("versions: %q", out)
	}
	rclone("delete", remote("main/images/train"))
	if got, want := strings.Join(r.keys(t, "", ""), " "), "main/images/a.txt main/images/long.bin"; got != want {
		t.Errorf("left: %s", got)
	}
}
