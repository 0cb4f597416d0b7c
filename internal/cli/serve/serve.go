package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstream "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/controller/scaling"
	"github.com/muster-dev/muster/internal/controller/trainingjob"
	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/manager"
	"github.com/muster-dev/muster/internal/snapshot"
	"github.com/muster-dev/muster/internal/trust"
	"github.com/muster-dev/muster/internal/visibility"
)

// options are what the flags say.
type options struct {
	factory *connection.Factory

	image      string
	gpus       []string
	signs      []string
	scaling    scaling.Options
	health     string
	metrics    string
	identity   string
	lease      time.Duration
	wait       time.Duration
	door       string
	store      store
	data       holdings
	front      front
	builds     builds
	agents     bool
	agentNodes map[string]string
	// authorities is a folder of certificates.
	authorities string
	datums      datums
	copies      copies
	tags        tags
	console     pages
	verbose     bool
	inCluster   func() (*rest.Config, error)
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f, inCluster: rest.InClusterConfig}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run Muster's controllers and scheduler on a Kubernetes cluster",
		Long: `Runs Muster's controllers and its scheduler against a Kubernetes of version 1.34
or later, which keeps all state. In a pod the pod's service account is used, else
the kubeconfig that --kubeconfig or $KUBECONFIG names.

Of several replicas one is elected, the others stand by; what runs on the cluster
goes on while none does. An API server that does not answer is waited for.

Ordinarily nobody types this: muster install has it run in the cluster.`,
		Example: "  muster serve --kubeconfig admin.conf\n  muster serve --default-image python:3.13 --metrics :8080 --health :8081",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.image, "default-image", "", "image of jobs that name none (default: they are refused)")
	flags.StringSliceVar(&o.gpus, "gpu-resource", []string{v1alpha1.ResourceGPU}, "extended resources that count GPUs; may be given several times")
	flags.StringSliceVar(&o.signs, "departure-sign", texts(departure.Known()), "by what on a node one can tell that it is about to go: KEY of a taint, or condition:TYPE/REASON, either with =DURATION for how long the machine is there for certain; may be given several times")
	flags.BoolVar(&o.scaling.On, "autoscaler", false, "ask the cluster's autoscaler for nodes, by pods that stand for the members of gangs that wait")
	flags.DurationVar(&o.scaling.After, "autoscaler-after", 30*time.Second, "for how long a gang waits for nodes before they are asked for")
	flags.IntVar(&o.scaling.Most, "autoscaler-most", 1000, "for how many members nodes are asked for at most at once")
	flags.StringVar(&o.scaling.AskBy, "autoscaler-ask-by", "", "how GPUs are asked for: resource, or the name of a DeviceClass, for an autoscaler that knows DRA (default: by the resource, where nodes count GPUs)")
	flags.StringVar(&o.scaling.PriorityClass, "autoscaler-priority-class", "", "priority class of the pods that ask for nodes (default: the cluster's)")
	flags.StringVar(&o.health, "health", "127.0.0.1:8081", "address of /healthz and /readyz, such as :8081 in a pod; 0 for none")
	flags.StringVar(&o.metrics, "metrics", "127.0.0.1:8080", "address of /metrics, such as :8080 in a pod; 0 for none")
	flags.StringVar(&o.identity, "identity", "", "name of this replica in leases (default: the host's name and the process id)")
	flags.DurationVar(&o.lease, "lease", 15*time.Second, "for how long other replicas wait after this one's last sign of life")
	flags.DurationVar(&o.wait, "wait", 5*time.Minute, "how long to wait at the start for an API server that does not answer")
	flags.StringVar(&o.door, "door", "0", "address of the door, by which code comes and goes and users ask, such as :8443 in a pod; 0 for none")
	flags.BoolVar(&o.agents, "agents", false, "agents of Muster run beside the kubelets (muster node agent): what members report of their progress is read by them")
	flags.StringToStringVar(&o.agentNodes, "agent-node-selector", nil, "labels of the nodes that have agents: KEY=VALUE, separated by commas; pods with what agents bring run there (default: all nodes)")
	flags.Lookup("agent-node-selector").DefValue = "" // else the help says "[]" as well
	flags.StringVar(&o.authorities, "authorities", "", "folder with certificates (PEM) of authorities of yours, whose signatures are believed beside those that the system believes: of buckets, and of registries where tags are looked up")
	o.store.addFlags(flags)
	o.data.addFlags(flags)
	o.datums.addFlags(flags)
	o.copies.addFlags(flags)
	o.tags.addFlags(flags)
	o.front.addFlags(flags)
	o.console.addFlags(flags)
	o.builds.addFlags(flags)
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "log what is done, and not warnings and errors alone")
	return cmd
}

// check refuses flags that make no sense.
func (o *options) check() error {
	for _, name := range o.gpus {
		if problems := validation.IsQualifiedName(name); len(problems) > 0 || !strings.Contains(name, "/") {
			return exit.Usage("--gpu-resource %s: give the name of an extended resource, such as %s or amd.com/gpu", name, v1alpha1.ResourceGPU)
		}
	}
	if _, err := readSigns(o.signs); err != nil {
		return exit.Usage("--departure-sign: %v", err)
	}
	for flag, address := range map[string]string{"health": o.health, "metrics": o.metrics, "door": o.door, "gateway": o.front.address} {
		if _, _, err := net.SplitHostPort(address); err != nil && address != "0" {
			return exit.Usage("--%s %s: give host:port, such as 127.0.0.1:8080 or :8080, or 0 for none", flag, address)
		}
	}
	if o.scaling.On && (o.scaling.After < time.Second || o.scaling.Most < 1) {
		return exit.Usage("--autoscaler-after %s, --autoscaler-most %d: give a second or more, and 1 or more", o.scaling.After, o.scaling.Most)
	}
	if problems := validation.IsDNS1123Subdomain(o.scaling.AskBy); o.scaling.AskBy != "" && len(problems) > 0 {
		return exit.Usage("--autoscaler-ask-by %s: give %s or the name of a DeviceClass, such as gpu.nvidia.com", o.scaling.AskBy, scaling.ByResource)
	}
	if err := errors.Join(o.store.check(), o.tags.check()); err != nil {
		return err
	}
	if err := o.data.check(&o.store); err != nil {
		return err
	}
	if err := o.front.check(o.data.place(&o.store), o.door); err != nil {
		return err
	}
	if err := o.console.check(); err != nil {
		return err
	}
	if err := o.builds.check(o.store.somewhere()); err != nil {
		return err
	}
	if _, err := labels.ValidatedSelectorFromSet(o.agentNodes); err != nil {
		return exit.Usage("--agent-node-selector: %v", err)
	}
	if o.lease < time.Second {
		return exit.Usage("--lease %s: give a second or more", o.lease)
	}
	if strings.ContainsAny(o.image, " \t\n") || o.image == v1alpha1.HostImage {
		return exit.Usage("--default-image %q: give the name of an image that nodes can pull, such as python:3.13", o.image)
	}
	return nil
}

func (o *options) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	config, err := o.config()
	if err != nil {
		return err
	}
	log := o.openLog()
	for ctx.Err() == nil {
		// 1. Will this cluster do? Again after every end: it may have been
		// upgraded, or be away.
		err := o.await(ctx, config, log)
		// 2. Run, until told to stop or replaced.
		if err == nil {
			err = o.serve(ctx, config, log)
		}
		switch {
		case ctx.Err() != nil: // told to stop
		case errors.Is(err, manager.ErrReplaced):
			log.Warn("standing by again", "because", err)
		case err != nil:
			return err
		}
	}
	return nil
}

// config is the pod's own where there is a pod and nobody named another.
func (o *options) config() (*rest.Config, error) {
	config, err := o.inCluster()
	switch {
	case err == nil && !o.factory.Named():
		config.QPS = -1
		config.UserAgent = "muster/" + o.factory.Version
		return config, nil
	case err != nil && !errors.Is(err, rest.ErrNotInCluster) && !o.factory.Named():
		return nil, fmt.Errorf("reading the pod's service account (does the pod mount its token?): %w", err)
	}
	return o.factory.RESTConfig()
}

// openLog sends what is logged to standard error, a line each.
func (o *options) openLog() *slog.Logger {
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(o.factory.Streams.Err, &slog.HandlerOptions{Level: level}))
	klog.SetSlogLogger(log)
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	return log
}

// believe has whoever connects to services of others believe certificates.
func (o *options) believe() error {
	pool, err := trust.Pool(o.authorities)
	o.store.bucket.Authorities, o.data.bucket.Authorities, o.copies.authorities, o.console.authorities = pool, pool, pool, pool
	return err
}

// serve runs one manager to its end.
func (o *options) serve(ctx context.Context, config *rest.Config, log *slog.Logger) error {
	if err := o.noteSettings(ctx, config); err != nil {
		return err
	}
	signs, err := readSigns(o.signs)
	if err != nil {
		return err
	}
	if err := o.believe(); err != nil {
		return err
	}
	code, err := o.store.open()
	if err != nil {
		return err
	}
	stores, err := o.data.open(&o.store)
	if err != nil {
		return err
	}
	var sources trainingjob.Sources
	var library *depot.Sources
	if code != nil {
		library = code.Sources()
		sources = library
	}
	var environments trainingjob.Environments
	quota, err := resource.ParseQuantity(o.store.quota)
	if err != nil {
		return err
	}
	builder := o.builds.open(code, quota.Value())
	if builder != nil {
		environments = builder
	}
	reader, err := o.openReader(config, stores, log)
	if err != nil {
		return err
	}
	runs, err := o.makeStages(ctx, config, stores, library, log)
	if err != nil {
		return err
	}
	runs.builds(builder)
	orders := o.orders(stores)
	add := func(m upstream.Manager) error {
		if builder != nil {
			if err := builder.SetupWithManager(m); err != nil {
				return err
			}
		}
		if err := errors.Join(addCaretaker(m, stores, log), reader.addTo(m), o.addConsole(m, log)); err != nil {
			return err
		}
		if err := runs.add(m); err != nil {
			return err
		}
		counter, err := o.openCounter(m, stores, log)
		if err != nil {
			return err
		}
		return o.addDoor(m, rooms{code: code, library: library, data: stores, orders: orders, runs: runs, keys: counter.keys()}, log)
	}
	m, err := manager.New(manager.Options{
		Ahead: soon(orders), Names: snapshot.NamesForOwners(visibility.Rule{}, nil), REST: config, Log: log, Sources: sources, Environments: environments, Data: reader.asked(), Signs: signs, Scaling: o.scaling, HostImage: o.image, ShareProcesses: true, OwnCode: true, Reports: o.reports(), ServesData: true, AgentNodes: o.agentNodes, GPUResources: o.gpus, Identity: o.name(), LeaseDuration: o.lease,
		Pipelines:     runs.pipelines(),
		HealthAddress: o.health, MetricsAddress: o.metrics, SeveralHere: true,
		Also: add,
	})
	if err != nil {
		return err
	}
	return o.manage(ctx, m, config.Host)
}

// manage runs a manager to its end, and announces it.
func (o *options) manage(ctx context.Context, m *manager.Manager, host string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.announce(ctx, m, host)
	}()
	err := m.Start(ctx)
	cancel()
	<-done
	return err
}

// reports is who reads how far members say that they are.
func (o *options) reports() trainingjob.Reports {
	if o.agents {
		return trainingjob.ReportsToAgent
	}
	return trainingjob.ReportsToNobody
}

// announce says when this replica is elected, and when it schedules.
func (o *options) announce(ctx context.Context, m *manager.Manager, host string) {
	o.say("standing by at %s", host)
	for _, step := range []struct {
		reached <-chan struct{}
		says    string
	}{{m.Elected(), "elected: the controllers run"}, {m.Scheduling(), "scheduling"}} {
		select {
		case <-ctx.Done():
			return
		case <-step.reached:
			o.say("%s", step.says)
		}
	}
}

// noteSettings writes down what commands that look at the cluster have to know
// of what this one was told.
func (o *options) noteSettings(ctx context.Context, config *rest.Config) error {
	scheme, err := manager.Scheme()
	if err != nil {
		return err
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return note(ctx, api, o.noted())
}

// name is this replica's name in leases.
func (o *options) name() string {
	if o.identity != "" {
		return o.identity
	}
	if pod := os.Getenv("POD_NAME"); pod != "" {
		return pod
	}
	return ""
}

// say tells whoever runs this something, a sentence a line.
func (o *options) say(format string, args ...any) {
	_, _ = fmt.Fprintf(o.factory.Streams.Err, "muster: "+format+"\n", args...)
}

// texts are signs as flags name them.
func texts(signs departure.Signs) []string {
	out := make([]string, len(signs))
	for i := range signs {
		out[i] = signs[i].String()
	}
	return out
}

// readSigns reads what flags name.
func readSigns(names []string) (departure.Signs, error) {
	out := departure.Signs{}
	for _, name := range names {
		sign, err := departure.Parse(name)
		if err != nil {
			return nil, err
		}
		out = append(out, sign)
	}
	return out, nil
}
