package workshop

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/environment"
)

// TestASecretForIndexes: the build mounts the netrc of the Secret, and counts by its name.
func TestASecretForIndexes(t *testing.T) {
	request := environment.Request{Requirements: "numpy", Image: "python:3.13", Secret: "vision/index"}
	b, err := order(request, request.Image, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b.key == aBuild(t).key {
		t.Error("a request without a Secret gets the environment that was built with one")
	}
	pod := (Options{}).podFor(customer{namespace: "vision"}, b)
	var from *corev1.SecretVolumeSource
	for _, v := range pod.Spec.Volumes {
		if v.Name == netrc {
			from = v.Secret
		}
	}
	if from == nil || from.SecretName != "index" || len(from.Items) != 1 || from.Items[0].Key != "netrc" || from.Optional == nil || !*from.Optional {
		t.Errorf("it mounts %+v", from)
	}
	for _, v := range pod.Spec.Containers[0].Env {
		if v.ValueFrom != nil {
			t.Errorf("the variable %s comes from elsewhere", v.Name)
		}
	}
	if plain := (Options{}).podFor(customer{namespace: "vision"}, aBuild(t)); strings.Contains(plain.String(), "secretName") {
		t.Error("a build without a Secret mounts one")
	}
}

// TestTheProgramUsesTheNetrc: the program reaches an index with the password, and does not
// print it.
func TestTheProgramUsesTheNetrc(t *testing.T) {
	_, open := wheelsAt(t, map[string]string{"mine": "1"})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "s3cr3tw0rd" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, open+r.URL.Path, http.StatusFound)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "netrc")
	if err := os.WriteFile(file, []byte("machine 127.0.0.1 login ada password s3cr3tw0rd account \"other words\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	text := "--find-links " + server.URL + "/\nmine\n"
	if _, _, err := script(t, text, "", "1000000000"); err == nil {
		t.Error("the index asks for no password")
	}
	if _, said, err := script(t, text, "", "1000000000", "MUSTER_NETRC="+file, "MUSTER_SECRET=index"); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	_, said, err := script(t, text+"s3cr3tw0rd==7\n", "", "1000000000", "MUSTER_NETRC="+file, "MUSTER_SECRET=index")
	if err == nil || strings.Contains(said, "s3cr3tw0rd") || !strings.Contains(said, "****==7") {
		t.Errorf("it says %q, %v", said, err)
	}
	hard := filepath.Join(t.TempDir(), "netrc")
	lines := "machine a password \"unclosed\nmachine 127.0.0.1 login ada password s3cr3tw0rd account \"s3cr3tw0rd too\"\n"
	if err := os.WriteFile(hard, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	_, said, err = script(t, text+"./s3cr3tw0rd too\n", "", "1000000000", "MUSTER_NETRC="+hard, "MUSTER_SECRET=index")
	if err == nil || strings.Contains(said, "s3cr3tw0rd") || strings.Contains(said, " too") {
		t.Errorf("it says %q, %v", said, err)
	}
	_, said, err = script(t, text, "", "1000000000", "MUSTER_NETRC="+file+".gone", "MUSTER_SECRET=index")
	if err == nil || !strings.Contains(said, "no Secret index with the key netrc") {
		t.Errorf("without the Secret it says %q, %v", said, err)
	}
}
