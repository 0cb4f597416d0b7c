package agent

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/codevolume"
	"github.com/muster-dev/muster/internal/agent/datavolume"
	"github.com/muster-dev/muster/internal/agent/hearing"
	"github.com/muster-dev/muster/internal/agent/stagevolume"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/door/visitor"
	"github.com/muster-dev/muster/internal/environment/bundle"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/node/shim"
)

// dataWorkers is how many cores unpack data, beside the work that the node is for.
const dataWorkers = 4

// atTheDoor are the parts that need the manager's door: what pods report is
// brought there; code and environments of jobs, and what they read, are fetched there.
func atTheDoor(o Options, set kubernetes.Interface) ([]func(context.Context) error, error) {
	door := visit(o, set)
	listener := hearing.NewListener(hearing.ListenerOptions{KubeletDir: o.KubeletDir, Door: door, Log: o.Log})
	parts := []func(context.Context) error{listener.Run}
	if o.Data {
		volumes, err := datavolume.New(datavolume.Options{
			Node: o.Node, KubeletDir: o.KubeletDir, Limit: o.DataCache, Crier: door, Orders: ordersAt{visit(o, set)}, LeaveFree: o.DataLeavesFree, Log: o.Log,
			Store: func(ctx context.Context, namespace string) (*data.Store, error) {
				return data.Open(ctx, data.Options{Backend: door.Data(namespace), Workers: dataWorkers})
			},
			Program: shim.ExtractWorker,
			Pass: func(w http.ResponseWriter, r *http.Request, namespace, path string) {
				door.Pass(w, r, namespace, path, v1alpha1.DoorData)
			},
		})
		if err != nil {
			return nil, err
		}
		parts = append(parts, volumes.Run)
	}
	if !o.Code {
		return parts, nil
	}
	code, err := codevolume.New(codevolume.Options{Node: o.Node, KubeletDir: o.KubeletDir, Fetcher: door, Log: o.Log})
	if err != nil {
		return nil, err
	}
	environments, err := codevolume.New(codevolume.Options{
		Node: o.Node, KubeletDir: o.KubeletDir, Fetcher: environmentsAt{door}, Keeper: environmentsAt{door}, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	stages, err := stagevolume.New(stagevolume.Options{
		Node: o.Node, KubeletDir: o.KubeletDir, Worker: shim.ExtractWorker, Log: o.Log,
		Pass: func(w http.ResponseWriter, r *http.Request, namespace, path string) {
			door.Pass(w, r, namespace, path, shift.Mark)
		},
	})
	if err != nil {
		return nil, err
	}
	return append(parts, code.Run, environments.Run, stages.Run), nil
}

// visit is how the door is reached.
func visit(o Options, set kubernetes.Interface) *visitor.Visitor {
	return visitor.Direct(visitor.DirectOptions{
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
}

// ordersAt are those that the door gives. It has connections of its own: one replica
// gives orders, and knows of the right to read that comes with them.
type ordersAt struct{ door *visitor.Visitor }

// Ahead are the orders of this node.
func (o ordersAt) Ahead(ctx context.Context, seen string) ([]v1alpha1.DataOrder, string, error) {
	return o.door.Ahead(ctx, seen)
}

// AheadStore opens the store of a namespace.
func (o ordersAt) AheadStore(ctx context.Context, namespace string) (*data.Store, error) {
	return data.Open(ctx, data.Options{Backend: o.door.Data(namespace), Workers: dataWorkers})
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
