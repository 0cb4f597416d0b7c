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
)

// codeOf is the driver of volumes with code, which is fetched at the manager's
// door; nil where that is not this agent's.
func codeOf(o Options, set kubernetes.Interface) (*codevolume.Server, error) {
	if o.Door == "" {
		return nil, nil //nolint:nilnil // no door is no error
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
	return codevolume.New(codevolume.Options{Node: o.Node, KubeletDir: o.KubeletDir, Fetcher: door, Log: o.Log})
}
