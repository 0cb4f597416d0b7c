//go:build embedded

package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// TestTheDoor is a cluster on which tenants send code and ask, through the API
// server's proxy, a manager with the rights of its service account alone.
func TestTheDoor(t *testing.T) {
	server := rehearsal.StartCluster(t)
	home, code := t.TempDir(), t.TempDir()
	t.Setenv("MUSTER_HOME", home)
	write(t, filepath.Join(code, "train.py"), "print(1)\n")
	write(t, filepath.Join(code, "lib", "same.py"), "pass\n")
	ada, mallory := filepath.Join(home, "ada.kubeconfig"), filepath.Join(home, "mallory.kubeconfig")
	server.Run(t, []rehearsal.Step{
		{Args: "install --no-wait --set manager.replicas=0,namespace.podSecurity=privileged", Says: "is applied"},
		{Args: "user add ada --lifetime 1h --file " + ada, Says: "ada"},
		{Args: "user add mallory --queue shared --lifetime 1h --file " + mallory, Says: "mallory"},
	})
	asAda, asMallory := server.As(t, ada), server.As(t, mallory)
	// 1. Before there is a manager that answers, that is said.
	asAda.Run(t, []rehearsal.Step{{Args: "top", Code: 1, Says: "Muster's manager does not answer"}})
	// 2. The manager, reached as a pod of it is.
	address := standIn(t, server.Client)
	store := t.TempDir()
	serve(t, server, "--door", address, "--store-folder", store, "--default-image", "busybox")
	rehearsal.AddOwned(t, server.Client, "one", 4)
	awaitDoor(t, asAda)
	// 3. Code goes in once.
	job := "run --detach --checkpoints none --gpus 4 --code " + code + " --name "
	asMallory.Run(t, []rehearsal.Step{{Args: job + "covert -- python train.py", Says: "covert"}})
	awaitPhase(t, server.Client, "mallory", "covert", v1alpha1.JobStarting)
	asAda.Run(t, []rehearsal.Step{{Args: job + "mnist -- python train.py", Says: "mnist"}})
	before := stored(t, store)
	asAda.Run(t, []rehearsal.Step{{Args: job + "again -- python train.py", Says: "again"}})
	if after := stored(t, store); after != before {
		t.Errorf("the same code was stored again:\n%s\nbefore:\n%s", after, before)
	}
	awaitPhase(t, server.Client, "ada", "mnist", v1alpha1.JobWaiting)
	// 4. Tenants are told why, and nothing of others' names.
	t.Run("answers", func(t *testing.T) { asksWhy(t, asAda, home) })
	// 5. What nobody may.
	asAda.Run(t, []rehearsal.Step{
		{Args: "why covert -n mallory", Code: 1, Says: "forbidden"},
		{Args: job + "x -n mallory -- python train.py", Code: 1, Says: "may not speak for namespace mallory"},
		{Args: "why nothing", Code: 3, Says: "nothing"},
	})
	strangers(t, server, asAda)
	// 6. An administrator needs no account made for them.
	admin := filepath.Join(home, "admin.kubeconfig")
	text, err := os.ReadFile(server.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	write(t, admin, string(text)) // beside no control plane's files: somebody else's cluster
	server.As(t, admin).Run(t, []rehearsal.Step{{Args: job + "admin -n default -- python train.py", Says: "admin"}})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// stored lists what the store holds.
func stored(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(filepath.Join(dir, "code"), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.Contains(path, "/uses/") {
			return err
		}
		info, err := e.Info()
		out = append(out, fmt.Sprint(path, " ", info.ModTime()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

// asksWhy is what ada is told while mallory has all GPUs.
func asksWhy(t *testing.T, ada *rehearsal.Server, dir string) {
	manifest := filepath.Join(dir, "job.yaml")
	said := map[string]string{}
	for _, args := range []string{"why mnist", "why mnist -o json", "top", "top -o json", "plan -f " + manifest, "plan -o json -f " + manifest} {
		if strings.HasSuffix(args, manifest) {
			text := say(t, ada, "run --dry-run -o yaml --name planned --gpus 4 --checkpoints none --code none -- true")
			write(t, manifest, text)
		}
		said[args] = say(t, ada, args)
		for _, secret := range []string{"mallory", "covert"} {
			if strings.Contains(said[args], secret) {
				t.Errorf("%s tells of %s:\n%s", args, secret, said[args])
			}
		}
	}
	for args, want := range map[string]string{"why mnist": "4 GPUs", "top": "one", "plan -f " + manifest: "would wait", "why mnist -o json": `"of": 2`} {
		if !strings.Contains(said[args], want) {
			t.Errorf("%s does not say %q:\n%s", args, want, said[args])
		}
	}
}

// say is what a command prints.
func say(t *testing.T, server *rehearsal.Server, line string) string {
	t.Helper()
	args := strings.Fields(line)
	var out, errs bytes.Buffer
	args = append([]string{args[0], "--kubeconfig", server.Kubeconfig}, args[1:]...)
	if code := cli.Execute(t.Context(), args, terminal.Streams{In: &bytes.Buffer{}, Out: &out, Err: &errs, NoColor: true}); code != exit.OK {
		t.Errorf("muster %s: code %d: %s", line, code, errs.String())
	}
	return out.String()
}

// strangers come with tokens that are not for the door, or not their own.
func strangers(t *testing.T, server, ada *rehearsal.Server) {
	t.Helper()
	token := func(namespace, name string, audiences ...string) string {
		t.Helper()
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
		if err := server.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
			t.Fatal(err)
		}
		return request.Status.Token
	}
	for name, tt := range map[string]struct {
		token  string
		status int
	}{
		"nothing":                       {"", 401},
		"nonsense":                      {"nonsense", 401},
		"for the API server":            {token("ada", v1alpha1.DoorAccount), 401},
		"of another account":            {token("ada", "ada", v1alpha1.DoorAudience), 403},
		"of another namespace":          {token("mallory", v1alpha1.DoorAccount, v1alpha1.DoorAudience), 403},
		"of one's own":                  {token("ada", v1alpha1.DoorAccount, v1alpha1.DoorAudience), 200},
		"of an account that could both": {token("ada", v1alpha1.DoorAccount, v1alpha1.DoorAudience, "https://kubernetes.default.svc.cluster.local"), 200},
	} {
		if got := knock(t, ada, "ada", tt.token); got != tt.status {
			t.Errorf("a token %s: %d, want %d", name, got, tt.status)
		}
	}
}

// awaitDoor waits until the proxy finds the door.
func awaitDoor(t *testing.T, s *rehearsal.Server) {
	t.Helper()
	status := 0
	defer func() {
		if status != 401 {
			t.Logf("the last answer was %d", status)
		}
	}()
	rehearsal.Eventually(t, "the door answers", func(context.Context) bool {
		status = knock(t, s, "ada", "nonsense")
		return status == 401
	})
}

func awaitPhase(t *testing.T, server client.Client, namespace, name string, want v1alpha1.JobPhase) {
	t.Helper()
	job := &v1alpha1.TrainingJob{}
	rehearsal.Eventually(t, fmt.Sprintf("%s/%s is %s", namespace, name, want), func(ctx context.Context) bool {
		return server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job) == nil && job.Status.Phase == want
	})
}
