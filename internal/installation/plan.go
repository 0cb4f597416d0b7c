package installation

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
)

// Oldest is the oldest Kubernetes that Muster runs on.
const Oldest = "1.34"

// Action is what is done with one object.
type Action string

// The actions.
const (
	Create Action = "create"
	Update Action = "update"
	Same   Action = "unchanged" // an update that changes nothing, as Compare found
	Keep   Action = "keep"      // it stays as it is
	Remove Action = "remove"    // it was ours and is no longer wanted
)

// Step is what is done with one object, and why if that is not plain.
type Step struct {
	Action Action
	Object *unstructured.Unstructured
	// Was is the version of Muster that it is of so far; empty if it is not
	// there.
	Was string
	// Note says what somebody should know about it; empty if nothing.
	Note string
}

// Plan is what an installation would do.
type Plan struct {
	Server Server
	Steps  []Step
	// Refusals are the reasons why nothing is done, each with what to do about
	// it; none: it can be done.
	Refusals []string
}

// Was is the version of Muster that is there; empty if none is.
func (p Plan) Was() string {
	for _, s := range p.Steps {
		if s.Object.GetKind() == kindDeployment {
			return s.Was
		}
	}
	return ""
}

// Refusal is that nothing was done, and why.
type Refusal struct{ Reasons []string }

func (r *Refusal) Error() string {
	return "nothing was changed:\n  - " + strings.Join(r.Reasons, "\n  - ")
}

// Prepare renders the chart for the cluster and finds out what applying it
// would do, and what stands in the way. It writes nothing.
func (c *Cluster) Prepare(ctx context.Context, w Wish) (Plan, error) {
	// 1. What is this?
	server, err := c.Server(ctx)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Server: server}
	if refusal := tooOld(server); refusal != "" {
		p.Refusals = append(p.Refusals, refusal)
		return p, nil
	}
	objects, err := Render(Rendering{Version: w.Version, Kubernetes: server.Version, Kinds: server.Kinds, Values: w.Values})
	if err != nil {
		return p, err
	}
	kept, err := keep(w, labelsOf(objects))
	if err != nil {
		return p, err
	}
	objects = append(objects, kept)
	// 2. May it be done?
	missing, err := c.missing(ctx, needed(objects, toApply))
	if err != nil {
		return p, err
	}
	if len(missing) > 0 {
		p.Refusals = append(p.Refusals, noRights("install", missing))
		return p, nil
	}
	// 3. What is there?
	for _, o := range objects {
		there, err := c.get(ctx, o)
		if err != nil {
			return p, err
		}
		step, refusal := stepFor(o, there)
		if refusal != "" {
			p.Refusals = append(p.Refusals, refusal)
		}
		p.Steps = append(p.Steps, step)
	}
	if len(p.Refusals) > 0 {
		p.Refusals = summary(p.Refusals)
		return p, nil
	}
	escalations, err := c.escalations(ctx, objects)
	if err != nil {
		return p, err
	}
	if len(escalations) > 0 {
		p.Refusals = append(p.Refusals, noRights("install", escalations))
		return p, nil
	}
	// 4. Find the objects that are no longer wanted, and the pods that cannot do without them.
	if err := c.planRemovals(ctx, &p); err != nil {
		return p, err
	}
	return p, c.planAgent(ctx, &p, w)
}

// tooOld says that a server is too old, and of which version it is. One that
// was built without a version is judged by what it serves.
func tooOld(s Server) string {
	v, err := version.ParseGeneric(s.Version)
	if err != nil || v.Major() == 0 {
		if s.Recent {
			return ""
		}
		return fmt.Sprintf("the server says that it is version %q and does not serve resource.k8s.io/v1: Muster needs Kubernetes %s or later", s.Version, Oldest)
	}
	if v.LessThan(version.MustParseGeneric(Oldest)) {
		return fmt.Sprintf("the server is Kubernetes %s and Muster needs %s or later: upgrade the cluster, or use muster up on a machine of its own", s.Version, Oldest)
	}
	return ""
}

// noRights says what whoever asks may not do.
func noRights(what string, missing []string) string {
	return fmt.Sprintf("you may not %s Muster here; what is missing: %s. Ask somebody with the role cluster-admin, or use another --context",
		what, strings.Join(missing, "; "))
}

// stepFor decides what to do with an object, by what is there.
func stepFor(o, there *unstructured.Unstructured) (Step, string) {
	s := Step{Action: Create, Object: o}
	if there == nil {
		return s, ""
	}
	s.Action, s.Was = Update, there.GetLabels()[labelVersion]
	owner := ownerOf(there)
	switch {
	case owner == Embedded:
		return s, embeddedRefusal
	case owner == Helm:
		return s, fmt.Sprintf("%s was installed by Helm (release %s): go on with helm upgrade, or helm uninstall it first (kinds and jobs are kept)",
			Title(o), there.GetAnnotations()["meta.helm.sh/release-name"])
	case owner == Foreign && o.GetKind() == "Namespace":
		s.Note = "it was there before and is labelled as Muster's"
	case owner == Foreign && o.GetKind() == "Queue":
		s.Action, s.Note = Keep, "somebody made it; it stays as it is"
	case owner == Foreign && !isOwnKind(o):
		s.Action, s.Note = Keep, "somebody else's definition; it stays as it is, and so do its jobs unless they say managedBy: muster.dev/kubeflow"
	case owner == Foreign:
		return s, fmt.Sprintf("%s is there and is not Muster's (its label %s is %q): rename or remove it; it is never overwritten",
			Title(o), labelPartOf, there.GetLabels()[labelPartOf])
	case o.GetKind() == kindCRD:
		if lost := losses(there, o); len(lost) > 0 {
			s.Action = Keep
			s.Note = fmt.Sprintf("of Muster %s and newer than this program: it has %s, which would be lost. It stays, and this program works with it", s.Was, shortList(lost))
		}
	}
	if s.Action == Update && o.GetKind() == kindCRD && s.Was != o.GetLabels()[labelVersion] {
		s.Note = fmt.Sprintf("of Muster %s so far", s.Was)
	}
	return s, ""
}

const embeddedRefusal = "this is an embedded Muster (muster up), which has everything already: to install on a cluster, give its kubeconfig by --kubeconfig"

// summary leaves out what is said twice.
func summary(refusals []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, r := range refusals {
		if !seen[r] {
			seen[r] = true
			out = append(out, r)
		}
	}
	return out
}

// shortList names the first few.
func shortList(all []string) string {
	const few = 3
	if len(all) <= few {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:few], ", "), len(all)-few)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
