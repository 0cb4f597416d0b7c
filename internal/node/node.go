package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	eventrecord "k8s.io/client-go/tools/record"

	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/afterjob"
	"github.com/muster-dev/muster/internal/node/archive"
	"github.com/muster-dev/muster/internal/node/directory"
	"github.com/muster-dev/muster/internal/node/footprint"
	"github.com/muster-dev/muster/internal/node/identity"
	"github.com/muster-dev/muster/internal/node/inventory"
	"github.com/muster-dev/muster/internal/node/ledger"
	"github.com/muster-dev/muster/internal/node/objectcache"
	"github.com/muster-dev/muster/internal/node/origin"
	"github.com/muster-dev/muster/internal/node/podrecord"
	"github.com/muster-dev/muster/internal/node/progress"
	"github.com/muster-dev/muster/internal/node/registry"
	"github.com/muster-dev/muster/internal/node/scratch"
	"github.com/muster-dev/muster/internal/node/userfiles"
	"github.com/muster-dev/muster/internal/node/volume"
)

// clients reach the API.
type clients struct {
	Core     kubernetes.Interface
	Metadata metadata.Interface
}

// Node runs the pods bound to this machine.
type Node struct {
	config    Config
	clients   clients
	cluster   types.UID
	pods      cache.SharedIndexInformer
	factories []informers.SharedInformerFactory
	objects   *objectcache.Cache
	volumes   *volume.Manager
	scratch   *scratch.Scratch
	users     *identity.Users
	directory *directory.Directory
	archive   *archive.Archive
	jobs      *afterjob.Jobs
	ledger    *ledger.Ledger
	live      *registry.Registry
	inventory *inventory.Inventory
	savers    *progress.Savers
	origins   *origin.Reader
	starts    starts
	recorder  eventrecord.EventRecorder // of pods; set by Run before the first worker

	homes     *userfiles.Homes // nil: Muster has one user
	footprint *footprint.Keeper
	started   time.Time
	capacity  corev1.ResourceList
	apiPort   int

	adopted chan struct{}
	ready   chan struct{}

	tasks sync.WaitGroup

	mu        sync.Mutex
	closing   bool
	workers   map[types.UID]*worker
	inherited map[types.UID]*leftover
}

// New checks the configuration and returns a node that does nothing yet.
func New(config Config) (*Node, error) {
	if config.REST == nil {
		return nil, errors.New("the node needs a way to reach the API server")
	}
	protobuf := rest.CopyConfig(config.REST)
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	protobuf.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	core, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return nil, fmt.Errorf("making the node's client: %w", err)
	}
	meta, err := metadata.NewForConfig(config.REST)
	if err != nil {
		return nil, fmt.Errorf("making the node's client: %w", err)
	}
	return newNode(config, clients{Core: core, Metadata: meta})
}

func newNode(config Config, c clients) (*Node, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	for _, folder := range []string{config.podsDir(), config.jobsDir()} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, fmt.Errorf("making the node's folders: %w", err)
		}
	}
	if err := config.keepApart(); err != nil {
		return nil, err
	}
	capacity, err := capacityOf(config.DataDir)
	if err != nil {
		return nil, err
	}
	n := &Node{
		config: config, clients: c, capacity: capacity, started: config.Clock.Now(),
		archive: archive.New(config.archiveDir()),
		ledger:  ledger.New(), live: registry.New(), savers: progress.NewSavers(), origins: origin.New(c.Metadata),
		adopted: make(chan struct{}), ready: make(chan struct{}),
		workers: map[types.UID]*worker{}, inherited: map[types.UID]*leftover{},
	}
	n.inventory = inventory.New(inventory.Options{GPUs: config.GPUs, Holders: n.holders, HostPorts: config.offeredPorts(), Clock: config.Clock, Log: config.Log})
	n.jobs = afterjob.New(afterjob.Options{
		Client: c.Metadata, Archive: n.archive, Dir: config.jobsDir(), AfterPodsOf: n.afterPodsOf, RemoveFolder: n.removeJobFolder, Log: config.Log,
	})
	mine := informers.NewSharedInformerFactoryWithOptions(c.Core, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", config.Name).String()
	}))
	n.pods = mine.Core().V1().Pods().Informer()
	all := informers.NewSharedInformerFactory(c.Core, 0)
	if n.objects, err = objectcache.New(c.Core, all); err != nil {
		return nil, err
	}
	services, slices := all.Core().V1().Services(), all.Discovery().V1().EndpointSlices()
	n.directory = directory.New(services.Lister(), slices.Lister())
	for _, informer := range []cache.SharedIndexInformer{services.Informer(), slices.Informer()} {
		if _, err := informer.AddEventHandler(n.directory.Handler()); err != nil {
			return nil, fmt.Errorf("watching services: %w", err)
		}
	}
	n.factories = []informers.SharedInformerFactory{mine, all}
	var owner func(context.Context, string) (*userfiles.Home, error)
	if config.Shared {
		n.homes, owner = userfiles.NewHomes(config.usersDir(), config.UserFiles), n.home
	}
	n.scratch = scratch.New(scratch.Options{DataDir: config.DataDir, Accounts: config.Accounts, Programs: scratch.Programs(config.Images)})
	n.footprint = n.newFootprint()
	n.users = identity.New(identity.Options{Accounts: config.Accounts, Shared: config.Shared, Processes: config.UserProcesses})
	n.volumes = volume.New(volume.Config{
		PodsDir: config.podsDir(), JobsDir: config.jobsDir(), VolumesDir: config.volumesDir(), Objects: n.objects,
		Environments: config.Environments, Code: config.Code, Data: config.Data, Mounts: config.Mounts, Stages: config.Stages,
		Allocatable: n.allocatable(), Now: config.Clock.Now, MemoryDir: config.memoryDir(),
		Owner: owner,
	})
	return n, nil
}

// Adopted is closed once every process that an earlier muster left is in the
// hands of a worker, or found to be nobody's.
func (n *Node) Adopted() <-chan struct{} { return n.adopted }

// Ready is closed once the Node object is registered and pods run.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Directory answers the names of services and pods; it is a network.Resolver.
func (n *Node) Directory() *directory.Directory { return n.directory }

// Archive keeps the logs of jobs' pods that are gone.
func (n *Node) Archive() *archive.Archive { return n.archive }

// Run runs pods until ctx ends, and leaves them running then. It can be called
// once.
//
//  1. Find what an earlier muster left, and hold its GPUs.
//  2. Know which cluster this is, and its pods.
//  3. Hand each pod to a worker; decide what becomes of the rest.
//  4. Serve the kubelet API, register, and keep the registration fresh.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer n.recordEvents(ctx)()
	defer n.wait()
	defer cancel()
	if err := n.inherit(ctx); err != nil {
		return err
	}
	n.lookAtGPUs(ctx)
	if err := n.identify(ctx); err != nil {
		return err
	}
	for _, f := range n.factories {
		f.StartWithContext(ctx)
	}
	if !cache.WaitForCacheSync(ctx.Done(), append(n.objects.Synced, n.pods.HasSynced)...) {
		return context.Cause(ctx)
	}
	registration, err := n.pods.AddEventHandler(n.handler(ctx))
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return context.Cause(ctx)
	}
	if n.disinherit(ctx) {
		n.lookAtGPUs(ctx) // what is left on them is nobody's now
	}
	close(n.adopted)
	failed, err := n.serve(ctx)
	if err != nil {
		return err
	}
	if err := n.register(ctx); err != nil {
		return err
	}
	n.tasks.Go(func() { n.heartbeat(ctx) })
	n.tasks.Go(func() { n.inventory.Run(ctx) })
	n.tasks.Go(func() { n.jobs.Run(ctx) })
	n.tasks.Go(func() { n.keepImages(ctx) })
	if n.footprint != nil {
		n.tasks.Go(func() { n.footprint.Run(ctx) })
	}
	if n.config.Network != nil {
		n.tasks.Go(func() {
			n.directory.Program(ctx, n.config.Network.SetServices, func(err error) { n.config.Log.Warn("services", "error", err) })
		})
	}
	close(n.ready)
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return fmt.Errorf("serving the kubelet API: %w", err)
	}
}

// lookAtGPUs looks once; a driver that does not answer is looked at again soon.
func (n *Node) lookAtGPUs(ctx context.Context) {
	if err := n.inventory.Refresh(ctx); err != nil {
		n.config.Log.Warn("looking for GPUs", "error", err)
	}
}

// wait waits for everything that Run started. Its context has ended.
func (n *Node) wait() {
	n.mu.Lock()
	n.closing = true
	n.mu.Unlock()
	for _, f := range n.factories {
		f.Shutdown()
	}
	n.tasks.Wait()
}

// identify reads which cluster this is, waiting for the API server.
func (n *Node) identify(ctx context.Context) error {
	for told := false; ; {
		namespace, err := n.clients.Core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err == nil {
			n.cluster = namespace.UID
			return nil
		}
		if !told {
			told = true
			n.config.Log.Info("waiting for the API server", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("reading the namespace %s: %w", metav1.NamespaceSystem, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// handler hands pods to their workers.
func (n *Node) handler(ctx context.Context) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if pod, ok := object.(*corev1.Pod); ok {
				n.see(ctx, pod)
			}
		},
		UpdateFunc: func(before, object any) {
			pod, ok := object.(*corev1.Pod)
			if !ok {
				return
			}
			// A pod deleted and made again between two looks.
			if old, ok := before.(*corev1.Pod); ok && old.UID != pod.UID {
				n.vanished(old.UID)
			}
			n.see(ctx, pod)
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				n.vanished(pod.UID)
			}
		},
	}
}

// see tells a pod's worker of it, and starts the worker at first sight.
func (n *Node) see(ctx context.Context, pod *corev1.Pod) {
	if pod.Spec.NodeName != n.config.Name {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing {
		return
	}
	if w := n.workers[pod.UID]; w != nil {
		w.see(pod)
		return
	}
	var r *podrecord.Record
	var left leftover
	if l := n.inherited[pod.UID]; l != nil {
		r, left = l.record, *l
		delete(n.inherited, pod.UID)
	}
	if r == nil && len(left.processes) > 0 {
		// It was admitted once; its record is lost, and its job's name with it.
		r = &podrecord.Record{Cluster: n.cluster, ResourceVersion: pod.ResourceVersion, UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, GPUs: admission.GPUs(pod), Share: admission.ShareOf(pod), Images: n.needsImages(pod)}
		if err := r.Write(n.config.podsDir()); err != nil {
			n.config.Log.Warn("writing a pod's record anew", "error", err)
		}
	}
	w := newWorker(n, pod, r, left.processes)
	if r != nil && !w.settled {
		n.ledger.Hold(pod, n.shared(pod))
	}
	if !w.settled {
		n.directory.Expect(pod)
	}
	n.workers[pod.UID] = w
	n.tasks.Go(func() {
		w.run(ctx)
		n.mu.Lock()
		defer n.mu.Unlock()
		if w.finished {
			delete(n.workers, w.uid)
		}
	})
}

func (n *Node) vanished(uid types.UID) {
	n.mu.Lock()
	w := n.workers[uid]
	n.mu.Unlock()
	if w != nil {
		w.vanish()
	}
}

// list returns all workers.
func (n *Node) list() []*worker {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]*worker, 0, len(n.workers))
	for _, w := range n.workers {
		all = append(all, w)
	}
	return all
}

// afterPodsOf calls f once no pod of a job is left here, unless ctx ends
// before.
func (n *Node) afterPodsOf(ctx context.Context, job types.UID, f func()) {
	var of []*worker
	for _, w := range n.list() {
		if uid := w.job.Load(); uid != nil && *uid == job {
			of = append(of, w)
		}
	}
	n.tasks.Go(func() {
		for _, w := range of {
			select {
			case <-w.done:
			case <-ctx.Done():
				return
			}
		}
		if ctx.Err() == nil {
			f()
		}
	})
}
