package image

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// Policy says when an image is pulled, as Kubernetes names it.
type Policy string

// The policies. None means PolicyAlways for the tag latest, and else
// PolicyIfNotPresent.
const (
	PolicyAlways       Policy = "Always"
	PolicyIfNotPresent Policy = "IfNotPresent"
	PolicyNever        Policy = "Never"
)

// parse completes an image's name: busybox is docker.io/library/busybox:latest.
func parse(name string) (reference.Named, error) {
	full, err := reference.ParseDockerRef(name)
	if err != nil {
		return nil, &Fault{Reason: InvalidName, Err: fmt.Errorf("the image name %q: %w", name, err)}
	}
	return full, nil
}

// policyFor is what a policy that was left out means.
func policyFor(policy Policy, full reference.Named) Policy {
	if policy != "" {
		return policy
	}
	if tagged, ok := full.(reference.Tagged); ok && tagged.Tag() == "latest" {
		return PolicyAlways
	}
	return PolicyIfNotPresent
}

// Credential is how to be let in by a registry.
type Credential struct {
	// Registry is its host name, with a port where it has one, and with the
	// beginning of the repository's path where the credential is for that part
	// alone. A scheme, and what else stands in files that docker login writes,
	// is taken off.
	Registry string
	Username string
	Password string
}

// hub is what the default registry is called in files, in references and on
// the network.
var hub = []string{"docker.io", "index.docker.io", "registry-1.docker.io"}

// choose returns the credential for an image at a host; of several the one
// that names most of the path. Nil: none fits.
func choose(credentials []Credential, full reference.Named, host string) *Credential {
	path := sameHost(host) + "/" + reference.Path(full)
	var best *Credential
	most := -1
	for i := range credentials {
		at := place(credentials[i].Registry)
		if (path == at || strings.HasPrefix(path, at+"/")) && len(at) > most {
			best, most = &credentials[i], len(at)
		}
	}
	return best
}

// place is a registry's name as choose compares it.
func place(registry string) string {
	if _, rest, ok := strings.Cut(registry, "://"); ok {
		registry = rest
	}
	registry = strings.TrimSuffix(registry, "/")
	for _, version := range []string{"/v1", "/v2"} {
		registry = strings.TrimSuffix(registry, version)
	}
	return sameHost(registry)
}

// sameHost gives the default registry one name.
func sameHost(registry string) string {
	host, rest, below := strings.Cut(registry, "/")
	for _, name := range hub {
		if host == name {
			host = hub[0]
		}
	}
	if below {
		return host + "/" + rest
	}
	return host
}
