package agent

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/codevolume"
	"github.com/muster-dev/muster/internal/agent/datavolume"
	"github.com/muster-dev/muster/internal/agent/fetcher"
	"github.com/muster-dev/muster/internal/agent/hearing"
	"github.com/muster-dev/muster/internal/agent/stagevolume"
	"github.com/muster-dev/muster/internal/door/visitor"
	"github.com/muster-dev/muster/internal/environment/bundle"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/node/shim"
)

// atTheDoor returns the parts of the agent that need the manager's door: reports of pods go
// there, and a process without rights fetches code, environments and data of jobs there.
func atTheDoor(ctx context.Context, o Options, set kubernetes.Interface) ([]func(context.Context) error, error) {
	door := visit(o, set)
	listener := hearing.NewListener(hearing.ListenerOptions{KubeletDir: o.KubeletDir, Door: door, Log: o.Log})
	parts := []func(context.Context) error{listener.Run}
	if !o.Data && !o.Code {
		return parts, nil
	}
	// Connections of its own: one replica gives orders, and knows of the right to read that
	// comes with them.
	orders := visit(o, set)
	fetches, err := newFetcher(ctx, o, door, orders)
	if err != nil {
		return nil, err
	}
	var inUse func() map[string]bool
	if o.Data {
		volumes, err := datavolume.New(datavolume.Options{
			Node: o.Node, KubeletDir: o.KubeletDir, Cache: fetches, Crier: door, Orders: orders, LeaveFree: o.DataLeavesFree, Log: o.Log,
			Program: shim.ExtractWorker,
			Pass: func(w http.ResponseWriter, r *http.Request, namespace, path string) {
				door.Pass(w, r, namespace, path, v1alpha1.DoorData)
			},
		})
		if err != nil {
			return nil, err
		}
		inUse = volumes.InUse
		parts = append(parts, volumes.Run)
	}
	parts = append(parts, func(ctx context.Context) error { return fetches.Run(ctx, inUse) })
	if !o.Code {
		return parts, nil
	}
	code, err := codeParts(o, door, fetches)
	return append(parts, code...), err
}

// newFetcher makes the agent's side of the process that fetches.
func newFetcher(ctx context.Context, o Options, door, orders *visitor.Visitor) (*fetcher.Fetcher, error) {
	options := fetcher.Options{
		Sockets: filepath.Join(o.KubeletDir, "plugins", inventory.Driver, "fetcher"), Program: o.FetchProgram, Limit: o.DataCache, Log: o.Log,
		Pass: func(w http.ResponseWriter, r *http.Request, namespace, path string) {
			door.Pass(w, r, namespace, path, v1alpha1.DoorMark)
		},
		PassAhead: func(w http.ResponseWriter, r *http.Request, namespace, path string) {
			orders.Pass(w, r, namespace, path, v1alpha1.DoorMark)
		},
	}
	if o.Data {
		options.Data = datavolume.Folder(o.KubeletDir)
	}
	if o.Code {
		options.Trees = map[fetcher.Kind]string{
			fetcher.Code:         codevolume.TreesFolder(o.KubeletDir, v1alpha1.CodeDriver),
			fetcher.Environments: codevolume.TreesFolder(o.KubeletDir, v1alpha1.EnvironmentDriver),
		}
	}
	return fetcher.New(ctx, options)
}

// codeParts bring pods the code and the environments of their jobs, and workers of pipelines
// to the door.
func codeParts(o Options, door *visitor.Visitor, fetches *fetcher.Fetcher) ([]func(context.Context) error, error) {
	code, err := codevolume.New(codevolume.Options{Node: o.Node, KubeletDir: o.KubeletDir, Fetcher: fetches.Trees(fetcher.Code), Log: o.Log})
	if err != nil {
		return nil, err
	}
	environments, err := codevolume.New(codevolume.Options{
		Node: o.Node, KubeletDir: o.KubeletDir, Fetcher: fetches.Trees(fetcher.Environments), Keeper: environmentsAt{door}, Log: o.Log,
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
	return []func(context.Context) error{code.Run, environments.Run, stages.Run}, nil
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

// environmentsAt keeps environments at the door, by digests that are their keys.
type environmentsAt struct{ door *visitor.Visitor }

// Keep sends an environment.
func (e environmentsAt) Keep(ctx context.Context, namespace, digest string, packed bundle.Packed, file string) error {
	return e.door.SendEnvironment(ctx, namespace, strings.TrimPrefix(digest, "sha256:"), packed, file)
}
