package upstream

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/muster-dev/muster/internal/controlplane/contract"
	"github.com/muster-dev/muster/internal/controlplane/pki"
)

// readyInterval is how often the API server is asked whether it is ready.
const readyInterval = 20 * time.Millisecond

// apiServerFlags are the flags without which it does not run here: the same
// for the bare server.
func apiServerFlags(order contract.Order) []string {
	dir := order.PKIDir()
	return []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1",
		// The only address is loopback, which no EndpointSlice may hold.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + pki.CertFile(dir, pki.APIServer),
		"--tls-private-key-file=" + pki.KeyFile(dir, pki.APIServer),
		"--client-ca-file=" + pki.CertFile(dir, "ca"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pki.ServiceAccountKeyFile(dir),
		"--service-account-signing-key-file=" + pki.ServiceAccountKeyFile(dir),
		"--service-cluster-ip-range=" + order.ServiceCIDR,
		"--authorization-mode=RBAC",
	}
}

// musterFlags are what Muster sets beyond: how it reaches the node, who may
// ask what, and what is left out because nobody here would use it.
func musterFlags(order contract.Order) []string {
	dir := order.PKIDir()
	return []string{
		"--authentication-config=" + order.AuthenticationConfig,
		"--kubelet-certificate-authority=" + pki.CertFile(dir, "ca"),
		"--kubelet-client-certificate=" + pki.CertFile(dir, pki.KubeletClient),
		"--kubelet-client-key=" + pki.KeyFile(dir, pki.KubeletClient),
		"--kubelet-preferred-address-types=Hostname,InternalIP",
		"--allow-privileged=true",
		"--profiling=false",
		"--disable-admission-plugins=" + strings.Join(absentAdmission, ","),
	}
}

// fairness is the API of priority and fairness.
const fairness = "flowcontrol.apiserver.k8s.io/v1"

// oneUserFlags are for a machine of one user: there is nobody to be fair to, and a limit
// would only slow the burst in which a large gang starts.
func oneUserFlags() []string {
	return []string{
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=0",
		"--max-mutating-requests-inflight=0",
		"--runtime-config=" + strings.Join(append([]string{fairness}, absentAPIs...), "=false,") + "=false",
	}
}

// The record of a shared control plane has at most three files of this size.
const auditFileMB, auditFilesBefore = "10", "2"

// sharedFlags are for a machine of several users.
func sharedFlags(order contract.Order) []string {
	return []string{
		"--runtime-config=" + strings.Join(absentAPIs, "=false,") + "=false",
		// Only the front proxy's own authority counts, and only its own name.
		"--requestheader-client-ca-file=" + pki.ProxiesCAFile(order.PKIDir()),
		"--requestheader-allowed-names=" + pki.FrontProxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--audit-policy-file=" + order.AuditPolicy,
		"--audit-log-path=" + order.AuditLog,
		"--audit-log-maxsize=" + auditFileMB,
		"--audit-log-maxbackup=" + auditFilesBefore,
	}
}

// absentAPIs have no controller here, so that an object of theirs would be
// ignored in silence: better that creating one fails.
var absentAPIs = []string{
	"autoscaling/v1", "autoscaling/v2",
	"certificates.k8s.io/v1",
	"storagemigration.k8s.io/v1",
}

// absentAdmission is for the APIs that are absent, and for what would only
// slow a node down: a new node is given work as soon as it says that it is
// ready, not once the lifecycle controller has untainted it.
var absentAdmission = []string{
	"CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "ClusterTrustBundleAttest",
	"TaintNodesByCondition",
}

// serveAPI puts kube-apiserver together and serves on listener until ctx ends.
// ready is called once, when the server says that it is.
func serveAPI(ctx context.Context, order contract.Order, listener net.Listener, ready func()) error {
	s := options.NewServerRunOptions()
	flags := apiServerFlags(order)
	if !order.Bare {
		flags = append(flags, musterFlags(order)...)
		if order.Shared {
			flags = append(flags, sharedFlags(order)...)
		} else {
			flags = append(flags, oneUserFlags()...)
		}
	}
	if err := parse("kube-apiserver", s.Flags(), flags); err != nil {
		return err
	}
	s.SecureServing.Listener = listener
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("setting feature gates: %w", err)
	}
	gates := s.GenericServerRunOptions.ComponentGlobalsRegistry.FeatureGateFor("kube")
	if err := logsapi.ValidateAndApply(s.Logs, gates); err != nil {
		return fmt.Errorf("setting up upstream's log: %w", err)
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	completed, err := s.Complete(ctx)
	if err != nil {
		return fmt.Errorf("completing the options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return fmt.Errorf("checking the options: %w", utilerrors.NewAggregate(errs))
	}
	config, err := apiserver.NewConfig(completed)
	if err != nil {
		return fmt.Errorf("configuring: %w", err)
	}
	complete, err := config.Complete()
	if err != nil {
		return fmt.Errorf("completing the configuration: %w", err)
	}
	chain, err := apiserver.CreateServerChain(complete)
	if err != nil {
		return fmt.Errorf("putting the servers together: %w", err)
	}
	if !order.Bare {
		handler := chain.GenericAPIServer.Handler
		handler.FullHandlerChain = refuseWithoutRoom(order.DataDir, handler.FullHandlerChain)
	}
	prepared, err := chain.PrepareRun()
	if err != nil {
		return fmt.Errorf("preparing to serve: %w", err)
	}
	asking, stop := context.WithCancel(ctx)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		if waitReady(asking, chain.GenericAPIServer.LoopbackClientConfig, order.ReadyPath()) == nil {
			ready()
		}
	}()
	err = prepared.Run(ctx)
	stop()
	<-asked
	return err
}

func waitReady(ctx context.Context, config *rest.Config, path string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for /readyz: %w", err)
	}
	return wait.PollUntilContextCancel(ctx, readyInterval, true, func(ctx context.Context) (bool, error) {
		return client.RESTClient().Get().RequestURI(path).Do(ctx).Error() == nil, nil
	})
}

// parse reads args as the flags of a command.
func parse(command string, sets cliflag.NamedFlagSets, args []string) error {
	flags := pflag.NewFlagSet(command, pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the flags of %s: %w", command, err)
	}
	return nil
}
