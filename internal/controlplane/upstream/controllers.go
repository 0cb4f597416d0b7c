package upstream

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"github.com/muster-dev/muster/internal/controlplane/contract"
	"github.com/muster-dev/muster/internal/controlplane/pki"
)

// wanted are the upstream controllers that ordinary manifests need.
//
// Taint eviction is not among them: all pods are on the machine that the
// control plane is on, so that evicting them from a node that was silent for a
// while (a suspended terminal, a laptop's lid) would kill training and gain
// nothing.
var wanted = []string{
	names.ServiceAccountTokenController,
	names.NamespaceController,
	names.GarbageCollectorController,
	names.ServiceAccountController,
	names.RootCACertificatePublisherController,
	names.ClusterRoleAggregationController,
	names.DeploymentController,
	names.ReplicaSetController,
	names.ReplicationControllerController,
	names.StatefulSetController,
	names.DaemonSetController,
	names.JobController,
	names.CronJobController,
	names.TTLController,
	names.TTLAfterFinishedController,
	names.EndpointSliceController,
	names.NodeLifecycleController,
	names.PodGarbageCollectorController,
	names.PersistentVolumeBinderController,
	names.PersistentVolumeProtectionController,
	names.PersistentVolumeClaimProtectionController,
	names.EphemeralVolumeController,
	names.ResourceQuotaController,
	names.DisruptionController,
	names.ResourceClaimController,
}

// endedPods is the number of ended pods that the API keeps.
const endedPods = 1000

func controllerFlags(order contract.Order) []string {
	dir := order.PKIDir()
	return []string{
		"--kubeconfig=" + order.Kubeconfig,
		"--controllers=" + strings.Join(wanted, ","),
		"--leader-elect=false",
		"--secure-port=0",
		"--profiling=false",
		// Over loopback to the same process, a client's limit hides nothing
		// but speed.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		"--root-ca-file=" + pki.CertFile(dir, "ca"),
		"--service-account-private-key-file=" + pki.ServiceAccountKeyFile(dir),
		"--controller-start-interval=0s",
		// A claim of a finished pod gives its volume back soon.
		"--pvclaimbinder-sync-period=15s",
		// Pods that have ended are deleted past this number, the oldest first.
		// Upstream's default, 12,500, is made for thousands of nodes: on one
		// machine it would be a gigabyte of memory.
		"--terminated-pod-gc-threshold=" + strconv.Itoa(endedPods),
	}
}

// runControllers runs upstream's controllers until ctx ends.
func runControllers(ctx context.Context, order contract.Order) error {
	s, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("reading the default options: %w", err)
	}
	known, disabled, aliases := controllers.KnownControllers(), controllers.ControllersDisabledByDefault(), controllers.ControllerAliases()
	if err := parse("kube-controller-manager", s.Flags(known, disabled, aliases), controllerFlags(order)); err != nil {
		return err
	}
	config, err := s.Config(ctx, known, disabled, aliases)
	if err != nil {
		return fmt.Errorf("configuring: %w", err)
	}
	if !healthy(ctx, config.Client.Discovery().RESTClient()) {
		return nil
	}
	if err := controllers.Run(ctx, config.Complete()); err != nil && ctx.Err() == nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}

// healthy waits until the whole of /healthz is well; it is false when ctx ended
// before. Upstream's controllers give up after 10 s, and the first start's roles
// take longer than that to be written when a thousand jobs are submitted
// meanwhile.
func healthy(ctx context.Context, api rest.Interface) bool {
	return wait.PollUntilContextCancel(ctx, healthPeriod, true, func(ctx context.Context) (bool, error) {
		return api.Get().AbsPath("/healthz").Do(ctx).Error() == nil, nil
	}) == nil
}

// healthPeriod is how often the API server is asked while it starts.
const healthPeriod = 100 * time.Millisecond
