//go:build embedded

package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
)

const (
	// waiting is how many jobs wait. The quota of a user leaves room for the plans, which are
	// dry runs.
	waiting = 400
	// asking is how many connections one user asks from.
	asking = 64
	// questions is how often the other user asks, and mostAnswers how many answers the flood
	// gets for each of these. In order of arrival it would get 64. It bounds no time, since
	// all tests share the processors.
	questions, mostAnswers = 9, 16
)

// TestAFloodOfQuestions lets a user ask why and plan as fast as possible, through the API
// server, while many jobs wait. Another user is answered meanwhile.
func TestAFloodOfQuestions(t *testing.T) {
	server := rehearsal.StartCluster(t)
	home := t.TempDir()
	t.Setenv("MUSTER_HOME", home)
	file := func(user string) string { return filepath.Join(home, user+".kubeconfig") }
	server.Run(t, []rehearsal.Step{
		{Args: "install --no-wait --set manager.replicas=0,namespace.podSecurity=privileged", Says: "is applied"},
		{Args: "user add ada --lifetime 1h --file " + file("ada"), Says: "ada"},
		{Args: "user add eve --lifetime 1h --file " + file("eve"), Says: "eve"},
	})
	serve(t, server, "--door", standIn(t, server.Client), "--default-image", "busybox")
	rehearsal.AddOwned(t, server.Client, "one", 4)
	ada, eve := questioner(t, server, file("ada"), "ada"), questioner(t, server, file("eve"), "eve")
	awaitDoor(t, ada.Server)
	before := ada.median()
	fill(t, server.Client)
	waits := ada.median()
	var stop atomic.Bool
	var answered, refused atomic.Int64
	var flooding sync.WaitGroup
	for k := range asking {
		flooding.Go(func() {
			for i := k; !stop.Load(); i++ {
				ask := eve.why
				if i%2 == 0 {
					ask = eve.plan
				}
				switch status := ask(); status {
				case http.StatusOK:
					answered.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("a question of the flood: status %d", status)
					return
				}
			}
		})
	}
	began := time.Now()
	during := ada.median()
	took, got := time.Since(began).Seconds(), answered.Load()
	stop.Store(true)
	flooding.Wait()
	t.Logf("a user is told why in %s, in %s while %d jobs wait, and in %s while another user asks from %d connections: %.1f answers and %.0f refusals a second",
		before, waits, waiting, during, asking, float64(got)/took, float64(refused.Load())/took)
	if got > questions*mostAnswers || refused.Load() == 0 {
		t.Errorf("the flood got %d answers and %d refusals while another user got %d answers: at most %d answers for each of these are fair", got, refused.Load(), questions, mostAnswers)
	}
}

// fill makes jobs of eve that find no room, and waits until the scheduler has said so of all.
func fill(t *testing.T, api client.Client) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for i := range waiting {
		group.Go(func() error {
			err := api.Create(ctx, questioned("eve", fmt.Sprint("job-", i)))
			for apierrors.IsInternalError(err) && ctx.Err() == nil { // the quota was not counted in time
				err = api.Create(ctx, questioned("eve", fmt.Sprint("job-", i)))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	rehearsal.Eventually(t, "all jobs wait", func(ctx context.Context) bool {
		gangs := &v1alpha1.GangList{}
		if err := api.List(ctx, gangs, client.InNamespace("eve")); err != nil || len(gangs.Items) < waiting {
			return false
		}
		return !slices.ContainsFunc(gangs.Items, func(g v1alpha1.Gang) bool { return g.Status.Message == "" })
	})
}

// questioned is a job that needs more GPUs than any node has.
func questioned(namespace, name string) *v1alpha1.TrainingJob {
	q := resource.MustParse("99")
	return &v1alpha1.TrainingJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TrainingJob"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.TrainingJobSpec{
			Queue: namespace, Environment: &v1alpha1.Environment{Image: "python:3.13"}, Checkpoints: &v1alpha1.Checkpoints{None: true},
			Roles: []v1alpha1.Role{{Name: "worker", Command: []string{"true"}, GPUs: &q}},
		},
	}
}

// asker asks at the door for a user, through the API server.
type asker struct {
	*rehearsal.Server
	t           *testing.T
	connections *http.Client
	namespace   string
	token       string
	job         []byte
}

func questioner(t *testing.T, server *rehearsal.Server, file, namespace string) *asker {
	t.Helper()
	a := &asker{Server: server.As(t, file), t: t, namespace: namespace}
	var err error
	if a.connections, err = rest.HTTPClientFor(a.Config); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.DoorAccount}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{v1alpha1.DoorAudience}}}
	if err := a.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	a.token = request.Status.Token
	if err := server.Client.Create(t.Context(), questioned(namespace, "mine")); err != nil {
		t.Fatal(err)
	}
	rehearsal.Eventually(t, "there is a gang to ask about", func(ctx context.Context) bool {
		g := &v1alpha1.Gang{}
		return server.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "mine"}, g) == nil && g.Status.Message != ""
	})
	if a.job, err = json.Marshal(questioned(namespace, "planned")); err != nil {
		t.Fatal(err)
	}
	return a
}

// ask returns the status of an answer, which it reads to its end; 0 if there is none.
func (a *asker) ask(method, path string, body []byte) int {
	url := a.Config.Host + "/api/v1/namespaces/" + v1alpha1.SystemNamespace + "/services/" + v1alpha1.DoorService + "/proxy/v1/namespaces/" + a.namespace + path
	request, err := http.NewRequestWithContext(a.t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		a.t.Error(err)
		return 0
	}
	request.Header.Set(v1alpha1.DoorHeader, a.token)
	response, err := a.connections.Do(request)
	if err != nil {
		a.t.Error(err)
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		a.t.Error(err)
	}
	return response.StatusCode
}

func (a *asker) why() int  { return a.ask(http.MethodGet, "/why/mine", nil) }
func (a *asker) plan() int { return a.ask(http.MethodPost, "/plan", a.job) }

// median is the median time of an answer to why.
func (a *asker) median() time.Duration {
	a.t.Helper()
	var took []time.Duration
	for range questions {
		began := time.Now()
		if status := a.why(); status != http.StatusOK {
			a.t.Fatalf("asking why: status %d", status)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2].Round(time.Millisecond)
}
