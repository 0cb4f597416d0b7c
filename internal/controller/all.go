package controller

import (
	"fmt"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/muster-dev/muster/internal/controller/gang"
	"github.com/muster-dev/muster/internal/controller/trainingjob"
	"github.com/muster-dev/muster/internal/controller/volumeclaim"
	"github.com/muster-dev/muster/internal/snapshot"
)

// Deps is what the controllers work with, beyond the manager.
type Deps struct {
	// Sources and Environments make code and environments ready.
	Sources      trainingjob.Sources
	Environments trainingjob.Environments
	// VolumesDir is where the built-in StorageClass keeps volumes, on the node
	// NodeName.
	VolumesDir string
	NodeName   string
	// DefaultScheduler makes Muster bind every unbound pod, where there is no
	// other scheduler.
	DefaultScheduler bool
	// Alone says that no other scheduler can be alive, because this process
	// holds the lock of the machine: it need not wait for one at the start.
	Alone bool
	// Observer is told how the scheduler does. Default: nobody.
	Observer snapshot.Observer
	// Log receives what no caller can.
	Log logr.Logger
}

// Setup adds every controller, and the scheduler, to the manager.
func Setup(mgr ctrl.Manager, d Deps) error {
	scheduler, err := snapshot.NewLoop(snapshot.Options{
		Cache: mgr.GetCache(), Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		DefaultScheduler: d.DefaultScheduler, Alone: d.Alone, Observer: d.Observer, Log: d.Log.WithName("scheduler"),
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(scheduler); err != nil {
		return fmt.Errorf("adding the scheduler: %w", err)
	}
	for _, c := range []interface{ SetupWithManager(ctrl.Manager) error }{
		trainingjob.New(trainingjob.Deps{Sources: d.Sources, Environments: d.Environments}),
		gang.New(gang.Options{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Log: d.Log.WithName("gang")}),
		volumeclaim.New(volumeclaim.Deps{Dir: d.VolumesDir, Node: d.NodeName}),
	} {
		if err := c.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	return nil
}
