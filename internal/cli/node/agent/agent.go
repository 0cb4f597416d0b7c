// Package agent is the command `muster node agent`: what Muster does on a node of
// a cluster, beside its kubelet.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/muster-dev/muster/internal/agent"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/node/gpu"
)

// options are what the flags say.
type options struct {
	factory   *connection.Factory
	verbose   bool
	agent     agent.Options
	dataCache string
	inCluster func() (*rest.Config, error)
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f, inCluster: rest.InClusterConfig}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Give out the GPUs of this node to containers, beside its kubelet",
		Long: `Runs on a node of a cluster, beside its kubelet: names the node's GPUs to the API
server (ResourceSlices of the DRA driver gpu.muster.dev) and has containers see
exactly the GPUs, or the part of one, that Muster gave their pod. Kubernetes 1.36
or later is needed for parts of GPUs, 1.34 for whole ones. With --door it also reads
how far the node's pods say that they are ($MUSTER_PROGRESS) and tells the manager.

Ordinarily nobody types this: muster install --set agent.create=true has it run on
every node that is Muster's. There must be no device plugin for the same GPUs.`,
		Example: "  muster node agent --node gpu-1 --kubeconfig agent.conf\n  muster node agent --node gpu-1 --simulate-gpus 8xA100",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.agent.Node, "node", os.Getenv("NODE_NAME"), "name of this node as the API server knows it; $NODE_NAME if not given")
	flags.StringVar(&o.agent.Simulate, "simulate-gpus", "", `pretend GPUs instead of looking for real ones, such as "8xA100"`)
	flags.StringVar(&o.agent.Root, "driver-root", "", "where the node's files are, with the GPU driver, for an agent in a container (default: /)")
	flags.StringVar(&o.agent.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "the kubelet's folder")
	flags.StringVar(&o.agent.CDIDir, "cdi-dir", "/var/run/cdi", "where the container runtime looks for descriptions of devices")
	flags.StringVar(&o.agent.Door, "door", "", "address of the manager's door, which is told how far pods of this node say that they are (default: that is not read)")
	flags.StringVar(&o.agent.DoorToken, "door-token", "", "file with this agent's token for the door")
	flags.BoolVar(&o.agent.Code, "code", false, "bring pods of this node the code and the environments of their jobs, fetched at the door")
	flags.BoolVar(&o.agent.Data, "data", false, "bring pods of this node the data that their jobs read, fetched at the door")
	flags.StringVar(&o.dataCache, "data-cache", "", "how much data is kept on this node, such as 500Gi; what pods read stays in any case (default: half of the disk)")
	flags.IntVar(&o.agent.DataLeavesFree, "data-leaves-free", 17, "how many percent of the disk are left free by data that is fetched before a pod names it: more than the kubelet wants to be free (imagefs.available, 15 by default)")
	flags.StringVar(&o.agent.HealthAddress, "health", "", "address of /healthz and /readyz, such as :8082 in a pod (default: none)")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "log what is done, and not warnings and errors alone")
	return cmd
}

// check refuses flags that make no sense.
func (o *options) check() error {
	a := &o.agent
	if a.Node == "" {
		return exit.Usage("on which node does the agent run? Give --node, or set $NODE_NAME")
	}
	if _, err := gpu.ParseSimulated(a.Simulate); err != nil {
		return exit.Usage("--simulate-gpus: %v", err)
	}
	if _, _, err := net.SplitHostPort(a.HealthAddress); err != nil && a.HealthAddress != "" {
		return exit.Usage("--health %s: give host:port, such as 127.0.0.1:8082 or :8082", a.HealthAddress)
	}
	if (a.Door == "") != (a.DoorToken == "") || a.Door != "" && !strings.HasPrefix(a.Door, "https://") {
		return exit.Usage("--door %q and --door-token %q go together: give an address that begins with https://, and a file", a.Door, a.DoorToken)
	}
	for flag, given := range map[string]bool{"code": a.Code, "data": a.Data} {
		if given && a.Door == "" {
			return exit.Usage("--%s: the %s is fetched at the manager's door; give --door, too", flag, flag)
		}
	}
	if o.dataCache != "" {
		size, err := resource.ParseQuantity(o.dataCache)
		if err != nil || size.Value() <= 0 {
			return exit.Usage("--data-cache %s: give a size, such as 500Gi", o.dataCache)
		}
		a.DataCache = size.Value()
	}
	if a.DataLeavesFree < 0 || a.DataLeavesFree > 100 {
		return exit.Usage("--data-leaves-free %d: give percent, from 0 to 100", a.DataLeavesFree)
	}
	for flag, dir := range map[string]string{"kubelet-dir": a.KubeletDir, "cdi-dir": a.CDIDir} {
		if !filepath.IsAbs(dir) {
			return exit.Usage("--%s %s: give the whole path of a folder", flag, dir)
		}
	}
	return nil
}

func (o *options) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	var err error
	if o.agent.REST, err = o.config(); err != nil {
		return err
	}
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelInfo
	}
	o.agent.Log = slog.New(slog.NewTextHandler(o.factory.Streams.Err, &slog.HandlerOptions{Level: level}))
	klog.SetSlogLogger(o.agent.Log)
	o.agent.FetchProgram = []string{"node", fetchName}
	return agent.Run(ctx, o.agent)
}

// config is the pod's own where there is a pod and nobody named another.
func (o *options) config() (*rest.Config, error) {
	config, err := o.inCluster()
	switch {
	case err == nil && !o.factory.Named():
		config.UserAgent = "muster-node/" + o.factory.Version
		return config, nil
	case err != nil && !errors.Is(err, rest.ErrNotInCluster) && !o.factory.Named():
		return nil, fmt.Errorf("reading the pod's service account (does the pod mount its token?): %w", err)
	}
	return o.factory.RESTConfig()
}
