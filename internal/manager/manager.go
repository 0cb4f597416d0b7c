package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	upstream "sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controller"
	"github.com/muster-dev/muster/internal/controller/pipeline"
	"github.com/muster-dev/muster/internal/controller/scaling"
	"github.com/muster-dev/muster/internal/controller/trainingjob"
	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/snapshot"
	"github.com/muster-dev/muster/internal/startup/warning"
)

// off is how a listener is told that it is not wanted.
const off = "0"

// LeaseName is the lease by which replicas elect one of them. The scheduler's
// own, by which it is fenced, is another.
const LeaseName = "muster-manager"

// Options are what a Manager is made of.
type Options struct {
	// REST is how to reach the API server.
	REST *rest.Config
	// Log receives what no caller can.
	Log *slog.Logger
	// Sources and Environments make code and environments ready. Nil: there is
	// no store for them, and jobs that need one are refused in words.
	Sources      trainingjob.Sources
	Environments trainingjob.Environments
	// Data makes what jobs read ready. Nil: there is no store of data, and jobs that
	// read any are refused in words.
	Data trainingjob.Data
	// HostImage is what members run in that name no image. Empty: jobs that name
	// none are refused in words.
	HostImage string
	// ShareProcesses has members not be the first process of their pod, where
	// nothing else sees to that.
	ShareProcesses bool
	// OwnCode has each member have its own copy of the code, in a volume that counts
	// as its pod's storage.
	OwnCode bool
	// Reports is who reads how far members say that they are. Default: the node.
	Reports trainingjob.Reports
	// ServesData has members served by a container of their own what they read as they
	// ask for it, where nodes do not serve it.
	ServesData bool
	// AgentNodes are the labels of the nodes that have agents. Empty: all that need one.
	AgentNodes map[string]string
	// VolumesDir is where the built-in StorageClass keeps volumes, on the node
	// NodeName. Empty: the cluster has StorageClasses of its own.
	VolumesDir string
	NodeName   string
	// VolumeOwner returns the user to whom the volumes of a namespace belong; false: it gets none.
	// Nil: Muster has one user.
	VolumeOwner func(namespace string) (uid uint32, ok bool)
	// Ahead is told who starts before long. Nil: nobody wants to know.
	Ahead snapshot.Ahead
	// Names are those that reasons in the objects of a namespace have for others. Nil:
	// the real ones, for a Muster of one user.
	Names snapshot.Names
	// Pipelines is what runs of pipelines need. Nil: there is no store of data, and
	// pipelines are refused in words.
	Pipelines *pipeline.Machine
	// GPUResources are the extended resources that count GPUs, on nodes that do
	// not name theirs; the first is what is asked for where no node says.
	// Default: nvidia.com/gpu.
	GPUResources []string
	// DefaultScheduler makes Muster bind every unbound pod, where there is no
	// other scheduler.
	DefaultScheduler bool
	// Alone says that no other scheduler can be alive, because this process
	// holds the lock of the machine. It is not elected then, and waits for
	// nobody.
	Alone bool
	// Identity names this process in leases. Default: the host's name and the
	// process id.
	Identity string
	// Namespace is where the leases are. Default: muster-system.
	Namespace string
	// LeaseDuration is for how long the others wait after the elected one's last
	// sign of life. Default: 15 s.
	LeaseDuration time.Duration
	// HealthAddress and MetricsAddress are what /healthz and /readyz, and
	// /metrics, are served on, as host:port. Empty: nowhere.
	HealthAddress, MetricsAddress string
	// Signs tell that a node is about to go. Default: [departure.Known].
	Signs departure.Signs
	// Scaling says whether nodes are asked for, of the cluster's autoscaler.
	Scaling scaling.Options
	// Also adds further parts, which are started and stopped with the others.
	Also func(upstream.Manager) error
	// SeveralHere says that this process makes several managers, as tests and a
	// process that was replaced do.
	SeveralHere bool
}

func (o Options) complete() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if len(o.GPUResources) == 0 {
		o.GPUResources = []string{v1alpha1.ResourceGPU}
	}
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "muster"
		}
		o.Identity = fmt.Sprintf("%s_%d", host, os.Getpid())
	}
	if o.Namespace == "" {
		o.Namespace = v1alpha1.SystemNamespace
	}
	if o.LeaseDuration <= 0 {
		o.LeaseDuration = 15 * time.Second
	}
	if o.HealthAddress == "" {
		o.HealthAddress = off
	}
	if o.MetricsAddress == "" {
		o.MetricsAddress = off
	}
	return o
}

// Manager is everything beside an API server, ready to be started once.
type Manager struct {
	inner upstream.Manager
	parts controller.Parts
	alone bool
}

// New makes the controllers and the scheduler. Nothing runs yet, and nothing is
// asked of the API server but which kinds it serves.
func New(o Options) (*Manager, error) {
	o = o.complete()
	options, err := o.inner()
	if err != nil {
		return nil, err
	}
	recorder, rest, err := o.record()
	if err != nil {
		return nil, err
	}
	if !o.Alone {
		if err := o.elect(&options, rest); err != nil {
			return nil, err
		}
	}
	inner, err := ctrl.NewManager(rest, options)
	if err != nil {
		return nil, fmt.Errorf("making the controllers: %w", err)
	}
	if err := o.count(inner); err != nil {
		return nil, err
	}
	parts, err := controller.Setup(inner, o.deps(recorder))
	if err != nil {
		return nil, err
	}
	if o.Also != nil {
		if err := o.Also(inner); err != nil {
			return nil, err
		}
	}
	m := &Manager{inner: inner, parts: parts, alone: o.Alone}
	return m, m.addChecks()
}

// inner is how the manager of controllers is set up.
func (o Options) inner() (ctrl.Options, error) {
	scheme, err := Scheme()
	if err != nil {
		return ctrl.Options{}, err
	}
	out := ctrl.Options{
		Cache:                  cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Event{}: warning.Cache()}},
		Scheme:                 scheme,
		Logger:                 o.logger(),
		Metrics:                metricsserver.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress: o.HealthAddress,
	}
	out.Controller.SkipNameValidation = &o.SeveralHere
	return out, nil
}

// deps are what the controllers work with.
func (o Options) deps(recorder snapshot.Observer) controller.Deps {
	return controller.Deps{
		Sources:          o.Sources,
		Environments:     o.Environments,
		Data:             o.Data,
		HostImage:        o.HostImage,
		ShareProcesses:   o.ShareProcesses,
		OwnCode:          o.OwnCode,
		Reports:          o.Reports,
		ServesData:       o.ServesData,
		AgentNodes:       o.AgentNodes,
		VolumesDir:       o.VolumesDir,
		VolumeOwner:      o.VolumeOwner,
		NodeName:         o.NodeName,
		Pipelines:        o.Pipelines,
		GPUResources:     resourceNames(o.GPUResources),
		DefaultScheduler: o.DefaultScheduler,
		Alone:            o.Alone,
		Identity:         o.Identity,
		Namespace:        o.Namespace,
		LeaseDuration:    o.LeaseDuration,
		Observer:         recorder,
		Ahead:            o.Ahead,
		Names:            o.Names,
		Signs:            o.Signs,
		Scaling:          o.Scaling,
		Log:              o.logger(),
	}
}

func (o Options) logger() logr.Logger { return logr.FromSlogHandler(o.Log.Handler()) }

// elect has one of several replicas run at a time. A replica that is told to stop lets the next
// begin at once: as soon as that asks again, which it does after one to 2.2 times the retry period,
// 0.5 s. The leader writes the lease less often ([sparing]).
func (o Options) elect(options *ctrl.Options, config *rest.Config) error {
	renew, retry := o.LeaseDuration*2/3, o.LeaseDuration/30
	lock, err := o.lock(config, renew)
	if err != nil {
		return err
	}
	options.LeaderElection = true
	options.LeaderElectionID = LeaseName
	options.LeaderElectionNamespace = o.Namespace
	options.LeaderElectionReleaseOnCancel = true
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &o.LeaseDuration, &renew, &retry
	options.LeaderElectionResourceLockInterface = lock
	return nil
}

func resourceNames(names []string) []corev1.ResourceName {
	out := make([]corev1.ResourceName, len(names))
	for i, name := range names {
		out[i] = corev1.ResourceName(name)
	}
	return out
}

// Scheme returns the kinds that are read and written: Kubernetes's own and
// Muster's.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the Kubernetes kinds: %w", err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering Muster's kinds: %w", err)
	}
	return scheme, nil
}

// Start runs until the context ends or a part fails. A manager that is not
// alone waits first until it is elected; it fails with [ErrReplaced] once
// another is.
func (m *Manager) Start(ctx context.Context) error {
	err := m.inner.Start(ctx)
	if err != nil && ctx.Err() == nil && m.replaced(err) {
		return errors.Join(ErrReplaced, err)
	}
	return err
}

// ErrReplaced is why a manager stands down that did not answer for long, or that
// could not reach the API server: another one may run by now.
var ErrReplaced = errors.New("another manager may have been elected: this one stands down")

// Elected is closed once this manager is the one that runs; one that is alone
// is at once.
func (m *Manager) Elected() <-chan struct{} { return m.inner.Elected() }

// Scheduling is closed once the scheduler has taken over and makes passes.
func (m *Manager) Scheduling() <-chan struct{} { return m.parts.Scheduler.Ready() }

// errNotReady is what /readyz says before the first contact with the API server.
var errNotReady = errors.New("the cache is not filled yet")

// addChecks serves the checks: alive is a process that answers; ready is one
// whose cache was filled, elected or not, so that a replica that stands by
// counts as well.
func (m *Manager) addChecks() error {
	begun := make(chan struct{})
	if err := m.inner.Add(standby{begun, m.parts.Scheduler.Warm}); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	if err := m.inner.AddHealthzCheck("alive", healthz.Ping); err != nil {
		return fmt.Errorf("adding the health check: %w", err)
	}
	err := m.inner.AddReadyzCheck("cache", func(*http.Request) error {
		select {
		case <-begun:
			return nil
		default:
			return errNotReady
		}
	})
	if err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	return nil
}

// standby is started in every replica, elected or not.
type standby struct {
	begun chan struct{}
	// warm fills the cache.
	warm func(context.Context) error
}

// Start fills the cache, and notes that this replica can take over at once.
func (s standby) Start(ctx context.Context) error {
	if err := s.warm(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("filling the cache of a replica that stands by: %w", err)
	}
	if ctx.Err() == nil {
		close(s.begun)
	}
	<-ctx.Done()
	return nil
}

// NeedLeaderElection says that a replica that stands by begins as well.
func (s standby) NeedLeaderElection() bool { return false }
