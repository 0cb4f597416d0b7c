package controller

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controller/deviceclaim"
	"github.com/muster-dev/muster/internal/controller/disruption"
	"github.com/muster-dev/muster/internal/controller/gang"
	"github.com/muster-dev/muster/internal/controller/kubeflow"
	"github.com/muster-dev/muster/internal/controller/pipeline"
	"github.com/muster-dev/muster/internal/controller/scaling"
	"github.com/muster-dev/muster/internal/controller/trainingjob"
	"github.com/muster-dev/muster/internal/controller/volumeclaim"
	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/snapshot"
)

// Deps is what the controllers work with, beyond the manager.
type Deps struct {
	// Sources and Environments make code and environments ready.
	Sources      trainingjob.Sources
	Environments trainingjob.Environments
	// Data makes what jobs read ready; nil: jobs that read any are refused.
	Data trainingjob.Data
	// HostImage is what members run in that name no image; empty: they are
	// refused.
	HostImage string
	// ShareProcesses has members not be the first process of their pod.
	ShareProcesses bool
	// OwnCode has each member have its own copy of the code.
	OwnCode bool
	// Reports is who reads how far members say that they are.
	Reports trainingjob.Reports
	// ServesData has members served by a container of their own what they read as they
	// ask for it.
	ServesData bool
	// AgentNodes are the labels of the nodes that have agents. Empty: all that need one.
	AgentNodes map[string]string
	// VolumesDir is where the built-in StorageClass keeps volumes, on the node
	// NodeName. Empty: there is no such class.
	VolumesDir string
	NodeName   string
	// VolumeOwner returns the user to whom the volumes of a namespace belong; false: it gets none.
	// Nil: Muster has one user.
	VolumeOwner func(namespace string) (uid uint32, ok bool)
	// Pipelines is what runs of pipelines need; nil: there is no store of data, and
	// pipelines are refused in words.
	Pipelines *pipeline.Machine
	// GPUResources are the extended resources that count GPUs, on nodes that do
	// not name theirs.
	GPUResources []corev1.ResourceName
	// DefaultScheduler makes Muster bind every unbound pod, where there is no
	// other scheduler.
	DefaultScheduler bool
	// Alone says that no other scheduler can be alive, because this process
	// holds the lock of the machine: it need not wait for one at the start. It also may
	// read every object.
	Alone bool
	// Identity names this process in the scheduler's lease, which is in
	// Namespace and lasts for LeaseDuration.
	Identity, Namespace string
	LeaseDuration       time.Duration
	// Observer is told how the scheduler does. Default: nobody.
	Observer snapshot.Observer
	// Ahead is told who starts before long. Nil: nobody wants to know.
	Ahead snapshot.Ahead
	// Names are those that reasons in the objects of a namespace have for others. Nil:
	// the real ones.
	Names snapshot.Names
	// Signs tell that a node is about to go. Default: [departure.Known].
	Signs departure.Signs
	// Scaling says whether nodes are asked for, of the cluster's autoscaler.
	Scaling scaling.Options
	// Log receives what no caller can.
	Log logr.Logger
}

// Parts are those of what was set up that others ask something.
type Parts struct {
	Scheduler *snapshot.Loop
}

// Setup adds every controller, and the scheduler, to the manager.
func Setup(mgr ctrl.Manager, d Deps) (Parts, error) {
	d.Scaling.Namespace, d.Scaling.GPUResources, d.Scaling.Log = d.Namespace, d.GPUResources, d.Log.WithName("scaling")
	scaler := scaling.New(d.Scaling)
	wanting := scaler.Tell
	if !d.Scaling.On {
		wanting = nil
	}
	scheduler, err := snapshot.NewLoop(snapshot.Options{
		Events: mgr.GetEventRecorder(v1alpha1.SchedulerName), Wanting: wanting, Ahead: d.Ahead, Names: d.Names, Signs: d.Signs,
		Cache: mgr.GetCache(), Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Namespace: d.Namespace, Identity: d.Identity, LeaseDuration: d.LeaseDuration,
		DefaultScheduler: d.DefaultScheduler, Alone: d.Alone, ReadsContents: d.Alone, GPUResources: d.GPUResources, Observer: d.Observer, Log: d.Log.WithName("scheduler"),
	})
	if err != nil {
		return Parts{}, err
	}
	if err := mgr.Add(scheduler); err != nil {
		return Parts{}, fmt.Errorf("adding the scheduler: %w", err)
	}
	controllers := []interface{ SetupWithManager(ctrl.Manager) error }{
		trainingjob.New(trainingjob.Deps{Sources: d.Sources, Environments: d.Environments, Data: d.Data, HostImage: d.HostImage, ShareProcesses: d.ShareProcesses, OwnCode: d.OwnCode, Reports: d.Reports, AgentNodes: d.AgentNodes, ServesData: d.ServesData}),
		gang.New(gang.Options{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), FenceNamespace: d.Namespace, GPUResources: d.GPUResources, Signs: d.Signs, Log: d.Log.WithName("gang"),
		}),
		disruption.New(disruption.Options{Signs: d.Signs}),
	}
	controllers = append(controllers, kubeflow.New(kubeflow.Options{}), scaler,
		deviceclaim.New(deviceclaim.Options{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}))
	pipelines, runs := pipeline.New(pipeline.Deps{Machine: d.Pipelines})
	controllers = append(controllers, pipelines, runs)
	if d.VolumesDir != "" {
		controllers = append(controllers, volumeclaim.New(volumeclaim.Deps{Dir: d.VolumesDir, Node: d.NodeName, Owner: d.VolumeOwner}))
	}
	for _, c := range controllers {
		if err := c.SetupWithManager(mgr); err != nil {
			return Parts{}, err
		}
	}
	return Parts{Scheduler: scheduler}, nil
}
