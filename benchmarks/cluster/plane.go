package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controlplane"
)

// namespace is where everything is submitted.
const namespace = "default"

// planeOptions say what runs in a plane beside etcd and the API server.
type planeOptions struct {
	// scheduler adds kube-scheduler.
	scheduler bool
	// gates are feature gates of both.
	gates string
}

// plane is a Kubernetes API for one measurement.
type plane struct {
	dir        string
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
	started, err := controlplane.Start(ctx, controlplane.Options{DataDir: dir, Executable: []string{b.muster, "control-plane"}})
	if err != nil {
		return fmt.Errorf("starting the API server: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = errors.Join(err, started.Stop(ctx))
	}()
	p := &plane{dir: dir, kubeconfig: started.Kubeconfig()}
	if err := p.connect(started.RESTConfig()); err != nil {
		return err
	}
	_ = o
	return do(p)
}

// connect makes the clients: pods and nodes in protobuf, as kube-scheduler and
// kubelets speak, and no limit of requests.
func (p *plane) connect(config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	var err error
	if p.gangs, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if p.core, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}
