package agent

import (
	"context"
	"fmt"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/codevolume"
	"github.com/muster-dev/muster/internal/door/visitor"
	"github.com/muster-dev/muster/internal/environment/bundle"
)

// volumesOf are the drivers of volumes with code and with environments, which are
// fetched at the manager's door; none where that is not this agent's.
func volumesOf(o Options, set kubernetes.Interface) ([]*codevolume.Server, error) {
	if o.Door == "" {
		return nil, nil
	}
	door := visitor.Direct(visitor.DirectOptions{
		Address: o.Door,
		Certificates: func(ctx context.Context) ([]byte, error) {
			m, err := set.CoreV1().ConfigMaps(v1alpha1.SystemNamespace).Get(ctx, v1alpha1.DoorName, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			var all strings.Builder
			for _, one := range m.Data {
				all.WriteString(one + "\n")
			}
			return []byte(all.String()), nil
		},
		// The kubelet renews the file.
		Token: func(context.Context) (string, error) {
			raw, err := os.ReadFile(o.DoorToken)
			if err != nil {
				return "", fmt.Errorf("reading this agent's token for the door: %w", err)
			}
			return strings.TrimSpace(string(raw)), nil
		},
	})
	code, err := codevolume.New(codevolume.Options{Node: o.Node, KubeletDir: o.KubeletDir, Fetcher: door, Log: o.Log})
	if err != nil {
		return nil, err
	}
	environments, err := codevolume.New(codevolume.Options{
		Node: o.Node, KubeletDir: o.KubeletDir, Fetcher: environmentsAt{door}, Keeper: environmentsAt{door}, Log: o.Log,
	})
	return []*codevolume.Server{code, environments}, err
}

// environmentsAt are those that the door has, by digests that are their keys.
type environmentsAt struct{ door *visitor.Visitor }

// Fetch lays an environment out.
func (e environmentsAt) Fetch(ctx context.Context, namespace, digest, dst string) error {
	return e.door.FetchEnvironment(ctx, namespace, strings.TrimPrefix(digest, "sha256:"), dst)
}

// Keep sends an environment.
func (e environmentsAt) Keep(ctx context.Context, namespace, digest string, packed bundle.Packed, file string) error {
	return e.door.SendEnvironment(ctx, namespace, strings.TrimPrefix(digest, "sha256:"), packed, file)
}
