package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/charts"
	"github.com/muster-dev/muster/test/cluster"
)

// namespace is where everything is submitted.
const namespace = "default"

const apiServer = "kube-apiserver"

// apiFlags are further flags of the API server: it deletes many objects at once
// side by side, and leaves new nodes without the mark of those that are not
// ready, which there is nobody here to take off again.
var apiFlags = []string{"--delete-collection-workers=64", "--disable-admission-plugins=TaintNodesByCondition"}

// planeOptions say what runs in a plane beside etcd and the API server.
type planeOptions struct {
	// scheduler adds kube-scheduler, without a limit of requests.
	scheduler bool
	// gates are feature gates of all programs.
	gates map[string]bool
	// args are further flags of a program, by its name.
	args map[string][]string
}

// plane is a Kubernetes API for one measurement: etcd and kube-apiserver as
// upstream builds them, and no controllers, which would only take turns on the
// same cores.
type plane struct {
	dir string
	// audit is where the API server writes down what it has answered.
	audit      string
	kubeconfig string
	core       kubernetes.Interface
	gangs      client.WithWatch
}

// with runs do with a plane of its own.
func (b *bench) with(ctx context.Context, o planeOptions, do func(*plane) error) (err error) {
	dir, err := os.MkdirTemp("", "muster-bench-cluster-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	args := maps.Clone(o.args)
	if args == nil {
		args = map[string][]string{}
	}
	flags, audit, err := audited(dir)
	if err != nil {
		return err
	}
	args[apiServer] = slices.Concat(apiFlags, flags, args[apiServer])
	began := time.Now()
	started, err := cluster.Start(ctx, cluster.Options{Scheduler: o.scheduler, WithoutControllers: true, WithoutServices: true, FeatureGates: o.gates, Args: args})
	if err != nil {
		return fmt.Errorf("starting the API server: %w", err)
	}
	defer func() { err = errors.Join(err, started.Stop()) }()
	b.say("an API server with etcd stands after %s", seconds(time.Since(began)))
	p := &plane{dir: dir, audit: audit, kubeconfig: started.Kubeconfig()}
	if err := p.connect(started.Config()); err != nil {
		return err
	}
	if err := p.furnish(ctx); err != nil {
		return err
	}
	return do(p)
}

// furnish makes Muster's kinds, and the account that pods are admitted with.
func (p *plane) furnish(ctx context.Context) error {
	files, err := fs.Glob(charts.CRD, "muster/crd/*.yaml")
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := charts.CRD.ReadFile(file)
		if err != nil {
			return err
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, crd); err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		if err := p.gangs.Create(ctx, crd); err != nil {
			return fmt.Errorf("installing %s: %w", crd.GetName(), err)
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	if err := p.gangs.Create(ctx, account); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the default account: %w", err)
	}
	for _, kind := range []client.ObjectList{&v1alpha1.GangList{}, &v1alpha1.PlacementList{}, &v1alpha1.TrainingJobList{}, &v1alpha1.QueueList{}} {
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			return p.gangs.List(ctx, kind) == nil, nil
		})
		if err != nil {
			return fmt.Errorf("waiting until %T is served: %w", kind, err)
		}
	}
	return nil
}

// connect makes the clients: pods and nodes in protobuf, as kube-scheduler and
// kubelets speak, and no limit of requests.
func (p *plane) connect(to *rest.Config) error {
	to = rest.CopyConfig(to)
	to.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	var err error
	if p.gangs, err = client.NewWithWatch(to, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	to.ContentType = runtime.ContentTypeProtobuf
	to.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if p.core, err = kubernetes.NewForConfig(to); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}
