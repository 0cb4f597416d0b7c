//go:build embedded

package install_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstream "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/controller/scaling"
	"github.com/muster-dev/muster/internal/controller/workshop"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/door/shelf"
	"github.com/muster-dev/muster/internal/manager"
)

// refused notes every answer by which the API server says that somebody may
// not.
type refused struct {
	next http.RoundTripper
	mu   sync.Mutex
	said []string
}

func (r *refused) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusForbidden {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf("%s %s: %q", request.Method, request.URL.Path, body))
	return response, err
}

func (r *refused) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.said)
}

// TestRightsSuffice runs the controllers and the scheduler with the rights of
// the manager's service account and no others: jobs are placed, evicted, grown,
// ended and removed, a node is drained, nodes are asked for, a foreign pod is
// bound, and nothing is ever forbidden.
func TestRightsSuffice(t *testing.T) {
	server := rehearsal.StartCluster(t)
	server.Run(t, []rehearsal.Step{{Args: "install --no-wait --set manager.replicas=0", Says: "is applied"}})
	ctx := t.Context()
	noted, _ := runAsManager(t, server)
	t.Cleanup(func() {
		for _, said := range noted.all() {
			t.Errorf("refused: %s", said)
		}
	})
	rehearsal.AddOwned(t, server.Client, "one", 8)
	startPods(t, server.Client)
	create := func(o client.Object) {
		t.Helper()
		if err := server.Client.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	server.Run(t, []rehearsal.Step{
		{Args: "queue edit default --min-run-time 1s", Says: "default"},
		{Args: "queue create vision --guaranteed gpu=8", Says: "vision"},
	})
	reaches := func(name string, phase v1alpha1.JobPhase) {
		t.Helper()
		job := &v1alpha1.TrainingJob{}
		rehearsal.Eventually(t, fmt.Sprintf("%s is %s", name, phase), func(ctx context.Context) bool {
			err := server.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, job)
			return err == nil && job.Status.Phase == phase
		})
	}
	// 1. One that grows, with checkpoints; then one that may have its room.
	create(trainingJob("elastic", 4, 8, ""))
	reaches("elastic", v1alpha1.JobRunning)
	create(trainingJob("urgent", 8, 8, "vision"))
	reaches("urgent", v1alpha1.JobRunning)
	rehearsal.Eventually(t, "elastic is evicted", func(ctx context.Context) bool {
		g := &v1alpha1.Gang{}
		err := server.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "elastic"}, g)
		return err == nil && g.Status.Evictions > 0
	})
	// 2. The end of one is the room of the other.
	endPods(ctx, t, server.Client, "urgent")
	reaches("urgent", v1alpha1.JobSucceeded)
	reaches("elastic", v1alpha1.JobRunning)
	drainUnder(t, server, "elastic")
	reaches("elastic", v1alpha1.JobRunning)
	askForNodes(t, server)
	// 3. A pod that names Muster, at first without room.
	pod := foreignPod("foreign", "8")
	create(pod)
	rehearsal.Eventually(t, "the foreign pod is told why it waits", func(ctx context.Context) bool {
		if err := server.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return false
		}
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled && c.Message != "" })
	})
	buildOnce(t, server)
	// 4. A job is deleted while it runs.
	if err := server.Client.Delete(ctx, trainingJob("elastic", 4, 8, "")); err != nil {
		t.Fatal(err)
	}
	rehearsal.Eventually(t, "the foreign pod is bound", func(ctx context.Context) bool {
		return server.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod) == nil && pod.Spec.NodeName == "one"
	})
	rehearsal.Eventually(t, "the deleted job's placements are gone", func(ctx context.Context) bool {
		left := &v1alpha1.PlacementList{}
		return server.Client.List(ctx, left, client.MatchingLabels{v1alpha1.LabelGang: "elastic"}) == nil && len(left.Items) == 0
	})
	// 5. A job that goes by itself.
	brief := trainingJob("brief", 1, 1, "")
	seconds := int32(0)
	brief.Spec.TTLSecondsAfterFinished = &seconds
	brief.Spec.Roles[0].GPUs = nil
	create(brief)
	reaches("brief", v1alpha1.JobRunning)
	endPods(ctx, t, server.Client, "brief")
	rehearsal.Eventually(t, "the brief job is gone", func(ctx context.Context) bool {
		return apierrors.IsNotFound(server.Client.Get(ctx, client.ObjectKeyFromObject(brief), brief))
	})
	// 6. A member and a pod that get their GPUs by claims.
	nameGPUs(ctx, t, server.Client, "named", "H100", 2)
	part, claimed := trainingJob("part", 1, 1, ""), resource.MustParse("250m")
	part.Spec.Roles[0].GPUs, part.Spec.Roles[0].GPUModels = &claimed, []string{"H100"}
	create(part)
	lone := foreignPod("lone", "1")
	lone.Annotations = map[string]string{v1alpha1.AnnotationGPUModels: "H100"}
	create(lone)
	rehearsal.Eventually(t, "both have allocated claims", func(ctx context.Context) bool {
		claims := &resourcev1.ResourceClaimList{}
		if err := server.Client.List(ctx, claims); err != nil || len(claims.Items) != 2 {
			return false
		}
		return !slices.ContainsFunc(claims.Items, func(c resourcev1.ResourceClaim) bool { return len(c.Status.ReservedFor) == 0 })
	})
	rehearsal.Eventually(t, "the lone pod is bound", func(ctx context.Context) bool {
		err := server.Client.Get(ctx, client.ObjectKeyFromObject(lone), lone)
		return err == nil && lone.Spec.NodeName == "named" && lone.Status.ExtendedResourceClaimStatus != nil
	})
	for _, said := range noted.all() {
		t.Errorf("forbidden: %s", said)
	}
}

// drainUnder cordons the node under a job, whose members may be evicted then and
// not before, and drains it.
func drainUnder(t *testing.T, server *rehearsal.Server, job string) {
	t.Helper()
	guarded := func(want bool) {
		t.Helper()
		rehearsal.Eventually(t, fmt.Sprintf("members are guarded: %v", want), func(ctx context.Context) bool {
			var pods corev1.PodList
			if err := server.Client.List(ctx, &pods, client.MatchingLabels{v1alpha1.LabelGang: job}); err != nil || len(pods.Items) == 0 {
				return false
			}
			return !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return (p.Labels[v1alpha1.LabelGuarded] == "true") != want })
		})
	}
	cordon := func(yes bool) {
		t.Helper()
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
		patch := fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, yes)
		if err := server.Client.Patch(t.Context(), n, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	guarded(true)
	var pods corev1.PodList
	if err := server.Client.List(t.Context(), &pods, client.MatchingLabels{v1alpha1.LabelGang: job}); err != nil {
		t.Fatal(err)
	}
	if err := server.Client.SubResource("eviction").Create(t.Context(), &pods.Items[0], &policyv1.Eviction{}); !apierrors.IsTooManyRequests(err) {
		t.Errorf("evicting a member: %v, want that its budget refuses it", err)
	}
	cordon(true)
	guarded(false)
	cordon(false)
	guarded(true)
	server.Run(t, []rehearsal.Step{{Args: "node drain one --no-wait", Says: "is being drained"}})
	rehearsal.Eventually(t, job+" leaves its node", func(ctx context.Context) bool {
		g := &v1alpha1.Gang{}
		err := server.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: job}, g)
		return err == nil && g.Status.EvictedFrom == "its node one is being drained (muster node drain)" && g.Status.Phase == v1alpha1.GangPending
	})
	server.Run(t, []rehearsal.Step{{Args: "node drain one --undo", Says: "takes work again"}})
}

// askForNodes has a job wait for more GPUs than there are.
func askForNodes(t *testing.T, server *rehearsal.Server) {
	t.Helper()
	asked := func(n int) {
		t.Helper()
		rehearsal.Eventually(t, fmt.Sprintf("%d pods ask for nodes", n), func(ctx context.Context) bool {
			var pods corev1.PodList
			err := server.Client.List(ctx, &pods, client.InNamespace(v1alpha1.SystemNamespace), client.HasLabels{v1alpha1.LabelPlaceholder})
			return err == nil && len(pods.Items) == n && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return len(p.Status.Conditions) == 0 || p.Spec.NodeName != "" })
		})
	}
	job := trainingJob("more", 9, 9, "")
	if err := server.Client.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	asked(9)
	if err := server.Client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	asked(0)
}

// buildOnce has two jobs ask for one environment: its build finds a node, belongs
// to both, and goes with them.
func buildOnce(t *testing.T, server *rehearsal.Server) {
	t.Helper()
	var jobs []*v1alpha1.TrainingJob
	for _, name := range []string{"first", "second"} {
		job := trainingJob(name, 1, 1, "")
		job.Spec.Environment = &v1alpha1.Environment{Requirements: "numpy"}
		if err := server.Client.Create(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, job)
	}
	builds := func(ctx context.Context) []corev1.Pod {
		var pods corev1.PodList
		if err := server.Client.List(ctx, &pods, client.HasLabels{v1alpha1.LabelBuild}); err != nil {
			return nil
		}
		return pods.Items
	}
	rehearsal.Eventually(t, "one build of both jobs runs", func(ctx context.Context) bool {
		pods := builds(ctx)
		return len(pods) == 1 && len(pods[0].OwnerReferences) == 2 && pods[0].Status.Phase == corev1.PodRunning
	})
	for _, job := range jobs {
		if err := server.Client.Delete(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	rehearsal.Eventually(t, "the build goes with the jobs", func(ctx context.Context) bool { return len(builds(ctx)) == 0 })
}

// asManager is a configuration with the service account's token, which notes
// refusals.
func asManager(t *testing.T, server *rehearsal.Server) (*rest.Config, *refused) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: "muster-manager"}}
	token := &authenticationv1.TokenRequest{}
	if err := server.Client.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(server.Config)
	config.BearerToken, config.QPS = token.Status.Token, -1
	noted := &refused{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		noted.next = next
		return noted
	})
	return config, noted
}

// runAsManager runs everything that the manager does beside the API server,
// until the test ends or stop is called.
func runAsManager(t *testing.T, server *rehearsal.Server) (noted *refused, stop func()) {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	config, watched := asManager(t, server)
	folder, err := shelf.OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	shop := workshop.New(workshop.Options{Store: depot.New(depot.Options{Shelf: folder}), NotStored: depot.ErrNotStored})
	m, err := manager.New(manager.Options{
		REST: config, HostImage: "busybox", SeveralHere: true, Identity: t.Name(), Scaling: scaling.Options{On: true, After: 100 * time.Millisecond},
		Environments: shop, Also: func(m upstream.Manager) error { return shop.SetupWithManager(m) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Start(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("the manager: %v", err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(stop)
	return watched, stop
}

// nameGPUs makes a node whose GPUs a driver names.
func nameGPUs(ctx context.Context, t *testing.T, server client.Client, name, model string, gpus int) {
	t.Helper()
	yes := true
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.muster.dev", NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1},
	}}
	for i := range gpus {
		uuid := fmt.Sprintf("GPU-%s-%d", name, i)
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name: fmt.Sprintf("gpu-%d", i), AllowMultipleAllocations: &yes,
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"uuid": {StringValue: &uuid}, "model": {StringValue: &model}},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
				"compute": {Value: resource.MustParse("1k")}, "memory": {Value: resource.MustParse("80Gi")},
			},
		})
	}
	if err := server.Create(ctx, slice); err != nil {
		t.Fatal(err)
	}
	rehearsal.AddNode(t, server, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"muster.dev/owned": "true"}}}, 0)
}

// startPods is a kubelet that runs pods on paper: each runs once it has a node,
// and goes once it is deleted.
func startPods(t *testing.T, server client.WithWatch) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	pods, err := server.Watch(ctx, &corev1.PodList{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range pods.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if !ok || p.Spec.NodeName == "" {
				continue
			}
			switch {
			case p.DeletionTimestamp != nil:
				_ = server.Delete(ctx, p, client.GracePeriodSeconds(0))
			case p.Status.Phase == corev1.PodPending && p.Status.StartTime == nil:
				now := metav1.Now()
				p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &now
				_ = server.Status().Update(ctx, p)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		pods.Stop()
		<-done
	})
}

// endPods says that the members of a job succeeded.
func endPods(ctx context.Context, t *testing.T, server client.Client, job string) {
	t.Helper()
	var pods corev1.PodList
	if err := server.List(ctx, &pods, client.MatchingLabels{v1alpha1.LabelGang: job}); err != nil || len(pods.Items) == 0 {
		t.Fatal("the members of", job, err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		from := p.DeepCopy()
		p.Status.Phase = corev1.PodSucceeded
		if err := server.Status().Patch(ctx, p, client.MergeFrom(from)); err != nil {
			t.Fatal(err)
		}
	}
}

// trainingJob is a job of workers with a GPU each.
func trainingJob(name string, least, most int32, queue string) *v1alpha1.TrainingJob {
	gpu := resource.MustParse("1")
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	job.Spec.Queue = queue
	job.Spec.Roles = []v1alpha1.Role{{Name: "worker", Replicas: &most, GPUs: &gpu, Command: []string{"true"}}}
	if least < most {
		job.Spec.Roles[0].MinReplicas = &least
	}
	return job
}

// foreignPod is a pod that was not made from a gang and names Muster.
func foreignPod(name, gpus string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{SchedulerName: "muster", Containers: []corev1.Container{{
			Name: "main", Image: "busybox",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{v1alpha1.ResourceGPU: resource.MustParse(gpus)}},
		}}},
	}
}
