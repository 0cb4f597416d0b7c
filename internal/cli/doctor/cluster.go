package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/allocation"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/version"
	"github.com/muster-dev/muster/internal/installation"
	"github.com/muster-dev/muster/internal/snapshot"
)

// scene is what there is on a cluster, as far as checks ask.
type scene struct {
	here    string // this program's version
	server  installation.Server
	manager installation.Manager
	kinds   []installation.Kind
	nodes   []corev1.Node
	pods    []corev1.Pod
	slices  []resourcev1.ResourceSlice
	// claimed are the GPUs of Muster's nodes that claims of others hold.
	claimed []allocation.Holding
	daemons []appsv1.DaemonSet
	claims  []resourcev1.ResourceClaim
	classes []storagev1.StorageClass
	beats   []coordinationv1.Lease
	// data is where the manager keeps versioned data; empty: nowhere.
	data string
	// gateways are the Services of the S3 gateway, one or none, and doors what
	// is behind it.
	gateways []corev1.Service
	doors    []discoveryv1.EndpointSlice
	// users are the namespaces of users, and tokens the Secrets in them that hold
	// tokens of service accounts.
	users  []string
	tokens []token
	clock  clocks
}

// clocks are two clocks at one moment.
type clocks struct {
	here, server time.Time
	// within is how long it took to ask: the comparison is no better.
	within time.Duration
}

// elsewhere looks at a cluster. What cannot be read is a finding, and what
// depends on it is not judged.
func elsewhere(ctx context.Context, f *connection.Factory) ([]Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	config, err := f.RESTConfig()
	if err != nil {
		return nil, err
	}
	cluster, err := installation.Connect(config)
	if err != nil {
		return nil, err
	}
	s := scene{here: version.Client().Version}
	if s.server, err = cluster.Server(ctx); err != nil {
		return nil, err
	}
	findings := []Finding{judgeServer(s)}
	judged, hidden := 0, 0
	look := func(check string, judge func(scene) []Finding, read ...func() error) {
		for _, one := range read {
			if err := one(); err != nil {
				if apierrors.IsForbidden(err) {
					hidden++
					err = f.Explain(err)
				}
				findings = append(findings, Finding{check, Limited, err.Error(), "look with rights to read it, as an administrator"})
				return
			}
		}
		judged++
		findings = append(findings, judge(s)...)
	}
	server, err := f.Client()
	if err != nil {
		return nil, err
	}
	list := lister(ctx, server)
	look("kinds", judgeKinds, func() (err error) { s.kinds, err = cluster.Kinds(ctx); return err })
	look("manager", judgeManager, func() (err error) { s.manager, err = cluster.Manager(ctx); return err })
	var nodes corev1.NodeList
	var pods corev1.PodList
	var parts resourcev1.ResourceSliceList
	var classes storagev1.StorageClassList
	var beats coordinationv1.LeaseList
	look("GPUs", judgeGPUs, list(&nodes, "the nodes"), list(&parts, "the resource slices"), func() error {
		s.nodes, s.slices = nodes.Items, parts.Items
		return nil
	})
	var daemons appsv1.DaemonSetList
	var claims resourcev1.ResourceClaimList
	look("node agent", judgeAgent,
		list(&daemons, "the agents", client.InNamespace(v1alpha1.SystemNamespace)), list(&claims, "the claims of GPUs"), list(&pods, "the pods"),
		func() error { s.daemons, s.claims, s.pods = daemons.Items, claims.Items, pods.Items; return nil })
	look("other schedulers", judgeSchedulers, list(&pods, "the pods"), func() (err error) {
		s.pods = pods.Items
		s.claimed, err = snapshot.HeldByOthers(ctx, server, s.nodes, s.pods)
		return err
	})
	look("storage", judgeStorage, list(&classes, "the storage classes"), func() error { s.classes = classes.Items; return nil })
	look("data", judgeData, func() (err error) { s.data, err = dataStore(ctx, server); return err })
	var services corev1.ServiceList
	var doors discoveryv1.EndpointSliceList
	look("S3 gateway", judgeGateway,
		list(&services, "the services of Muster", client.InNamespace(v1alpha1.SystemNamespace), client.MatchingFields{"metadata.name": v1alpha1.GatewayName}),
		list(&doors, "what is behind the S3 gateway's service", client.InNamespace(v1alpha1.SystemNamespace), client.MatchingLabels{discoveryv1.LabelServiceName: v1alpha1.GatewayName}),
		func() error { s.gateways, s.doors = services.Items, doors.Items; return nil })
	look("tokens", judgeTokens, func() (err error) { s.users, s.tokens, err = tokens(ctx, server); return err })
	look("clocks", judgeClocks,
		func() (err error) { s.clock, err = compareClocks(ctx, config); return err },
		list(&beats, "the signs of life of nodes", client.InNamespace(corev1.NamespaceNodeLease)),
		func() error { s.beats = beats.Items; return nil })
	return append(findings, judgeRights(judged, hidden)...), nil
}

// lister returns a function that lists objects of a kind into a list.
func lister(ctx context.Context, server client.Client) func(into client.ObjectList, what string, options ...client.ListOption) func() error {
	return func(into client.ObjectList, what string, options ...client.ListOption) func() error {
		return func() error {
			if err := server.List(ctx, into, options...); err != nil {
				return fmt.Errorf("listing %s: %w", what, err)
			}
			return nil
		}
	}
}

// dataStore is the location of the manager's versioned data; empty: none.
func dataStore(ctx context.Context, server client.Client) (string, error) {
	namespace := &corev1.Namespace{}
	err := server.Get(ctx, client.ObjectKey{Name: v1alpha1.SystemNamespace}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading namespace %s: %w", v1alpha1.SystemNamespace, err)
	}
	return namespace.Annotations[v1alpha1.AnnotationDataStore], nil
}

// judgeRights reports that most checks could not run, because this user may not read their objects.
func judgeRights(judged, hidden int) []Finding {
	if hidden <= judged {
		return nil
	}
	return []Finding{{"rights", Bad, "most of the cluster could not be checked, because this kubeconfig may not read it",
		"run muster doctor as an administrator of the cluster; for your jobs, muster get, muster why and muster plan work"}}
}

// compareClocks asks the API server for the time.
func compareClocks(ctx context.Context, config *rest.Config) (clocks, error) {
	caller, err := rest.HTTPClientFor(config)
	if err != nil {
		return clocks{}, fmt.Errorf("making a client: %w", err)
	}
	host, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return clocks{}, fmt.Errorf("reading the server's address: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, host.JoinPath("version").String(), nil)
	if err != nil {
		return clocks{}, fmt.Errorf("asking the server for the time: %w", err)
	}
	before := time.Now()
	response, err := caller.Do(request)
	if err != nil {
		return clocks{}, fmt.Errorf("asking the server for the time: %w", err)
	}
	_ = response.Body.Close()
	c := clocks{here: before.Add(time.Since(before) / 2), within: time.Since(before)}
	if c.server, err = http.ParseTime(response.Header.Get("Date")); err != nil {
		return clocks{}, errors.New("the server does not say what time it is (no Date in its answer): is a proxy between?")
	}
	// It says whole seconds: on the average half a second is missing.
	c.server = c.server.Add(time.Second / 2)
	return c, nil
}
