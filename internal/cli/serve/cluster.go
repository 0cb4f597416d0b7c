package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/charts"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/manager"
)

// oldest is the oldest minor version of Kubernetes 1 that will do.
const oldest = 34

// askAgain is the pause after an API server did not answer.
const askAgain = 2 * time.Second

// refusal is why a cluster will not do; waiting is of no use.
type refusal struct{ error }

func refuse(format string, args ...any) error {
	return refusal{exit.With(exit.Failure, fmt.Errorf(format, args...))}
}

// await looks whether the cluster will do. One that does not answer is asked
// again, for as long as the flags say; it says so once.
func (o *options) await(ctx context.Context, to *rest.Config, log *slog.Logger) error {
	set, err := kubernetes.NewForConfig(to)
	if err != nil {
		return fmt.Errorf("making a client for %s: %w", to.Host, err)
	}
	begun, told := time.Now(), false
	for {
		err := inspect(ctx, set)
		if err == nil {
			err = rightFields(set.Discovery().OpenAPIV3(), charts.CRD)
		}
		var no refusal
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return err
		case errors.As(err, &no):
			return no.error
		case time.Since(begun) > o.wait:
			return fmt.Errorf("waiting for the API server at %s: it did not answer for %s (--wait): %w", to.Host, o.wait, err)
		}
		if !told {
			o.say("the API server at %s does not answer; waiting up to %s for it (%v)", to.Host, o.wait, err)
			told = true
		}
		log.Info("asking again", "server", to.Host, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askAgain):
		}
	}
}

// inspect asks the cluster everything that decides whether it will do.
func inspect(ctx context.Context, set kubernetes.Interface) error {
	if err := rightVersion(set.Discovery()); err != nil {
		return err
	}
	if err := rightKinds(set.Discovery()); err != nil {
		return err
	}
	return rightRights(ctx, set)
}

// rightVersion refuses a server that is too old.
func rightVersion(server discovery.ServerVersionInterface) error {
	version, err := server.ServerVersion()
	switch {
	case apierrors.IsUnauthorized(err):
		return refuse("the API server does not accept the credentials: check the kubeconfig or the pod's service account: %w", err)
	case err != nil:
		return fmt.Errorf("asking for the server's version: %w", err)
	}
	minor, err := strconv.Atoi(strings.TrimRight(version.Minor, "+"))
	if version.Major == "1" && err == nil && minor < oldest {
		return refuse("the API server is Kubernetes %s, and Muster needs 1.%d or later: upgrade the cluster, or run Muster on one machine with `muster up`",
			version.GitVersion, oldest)
	}
	return nil
}

// kinds are the resources that the server must serve for Muster.
var kinds = []string{"gangs", "placements", "queues", "trainingjobs"}

// rightKinds refuses a server on which Muster's kinds are missing, or are those
// of another version.
func rightKinds(server discovery.DiscoveryInterface) error {
	list, err := server.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return otherKinds(server)
	}
	if err != nil {
		return fmt.Errorf("asking for Muster's kinds: %w", err)
	}
	var missing []string
	for _, kind := range kinds {
		if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == kind }) {
			missing = append(missing, kind)
		}
	}
	if len(missing) > 0 {
		return refuse("the cluster lacks kinds of %s: %s: install this version's with `muster install`", v1alpha1.GroupVersion, strings.Join(missing, ", "))
	}
	return nil
}

// otherKinds says what there is instead of the kinds of this version.
func otherKinds(server discovery.DiscoveryInterface) error {
	groups, err := server.ServerGroups()
	if err != nil {
		return fmt.Errorf("asking for the kinds that are served: %w", err)
	}
	for i := range groups.Groups {
		if g := &groups.Groups[i]; g.Name == v1alpha1.GroupVersion.Group {
			var has []string
			for _, v := range g.Versions {
				has = append(has, v.Version)
			}
			return refuse("the cluster has Muster's kinds in version %s, and this program needs %s: run the muster that goes with them, or install this version's with `muster install`",
				strings.Join(has, ", "), v1alpha1.GroupVersion.Version)
		}
	}
	return refuse("Muster's kinds (%s) are not on this cluster: install them with `muster install`", v1alpha1.GroupVersion)
}

// right is something that the manager does all the time.
type right struct {
	verb, group, resource, subresource string
	// name is that of one object of Muster's namespace; empty: any object, of any namespace.
	name string
}

// rights are those without which nothing works; the rest is found out when it
// is needed, and said then.
var rights = []right{
	{"list", "", "nodes", "", ""}, {"watch", "", "nodes", "", ""},
	{"list", "", "pods", "", ""}, {"watch", "", "pods", "", ""}, {"create", "", "pods", "", ""}, {"delete", "", "pods", "", ""},
	{"create", "", "pods", "binding", ""}, {"patch", "", "pods", "status", ""},
	{"list", "", "namespaces", "", ""}, {"list", "", "resourcequotas", "", ""},
	{"create", "", "services", "", ""}, {"create", "", "persistentvolumeclaims", "", ""},
	{"get", "", "persistentvolumeclaims", "", ""}, {"patch", "", "persistentvolumeclaims", "", ""}, {"list", "", "events", "", ""},
	{"list", "storage.k8s.io", "storageclasses", "", ""},
	{"list", "scheduling.k8s.io", "priorityclasses", "", ""},
	{"list", "", "persistentvolumes", "", ""}, {"list", "policy", "poddisruptionbudgets", "", ""}, {"create", "policy", "poddisruptionbudgets", "", ""},
	{"create", "coordination.k8s.io", "leases", "", manager.LeaseName}, {"update", "coordination.k8s.io", "leases", "", manager.LeaseName}, {"update", "coordination.k8s.io", "leases", "", fencing.LeaseName},
	{"create", "events.k8s.io", "events", "", ""},
	{"list", "muster.dev", "trainingjobs", "", ""}, {"patch", "muster.dev", "trainingjobs", "status", ""},
	{"create", "muster.dev", "gangs", "", ""}, {"patch", "muster.dev", "gangs", "status", ""},
	{"create", "muster.dev", "placements", "", ""}, {"delete", "muster.dev", "placements", "", ""},
	{"list", "muster.dev", "queues", "", ""}, {"patch", "muster.dev", "queues", "status", ""},
}

func (r right) String() string {
	what := r.resource
	if r.subresource != "" {
		what += "/" + r.subresource
	}
	if r.group != "" {
		what += "." + r.group
	}
	if r.name != "" {
		what += " " + r.name
	}
	return r.verb + " " + what
}

// rightRights refuses to go on without the rights that everything needs.
func rightRights(ctx context.Context, set kubernetes.Interface) error {
	var missing []string
	for _, r := range rights {
		namespace := ""
		if r.name != "" {
			namespace = v1alpha1.SystemNamespace
		}
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource, Name: r.name},
		}}
		answer, err := set.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("asking for this program's rights: %w", err)
		}
		if !answer.Status.Allowed {
			missing = append(missing, r.String())
		}
	}
	if len(missing) > 0 {
		return refuse("this program may not do what it has to on this cluster: %s; `muster install` gives the rights, or run it as somebody who has them",
			strings.Join(missing, ", "))
	}
	return nil
}
