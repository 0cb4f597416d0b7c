package rendezvous

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/expansion"
)

// members builds rows "role index host:port".
func members(roles ...string) []Member {
	counts := map[string]int32{}
	var out []Member
	for i, role := range roles {
		out = append(out, Member{Role: role, Index: counts[role], Host: "127.0.0.1", Port: int32(20000 + i)})
		counts[role]++
	}
	return out
}

func render(g Gang, role string, index int32) ([]corev1.EnvVar, error) {
	table, err := NewTable(g)
	if err != nil {
		return nil, err
	}
	return table.Render(role, index)
}

func asMap(vars []corev1.EnvVar) map[string]string {
	out := map[string]string{}
	for _, v := range vars {
		out[v.Name] = v.Value
	}
	return out
}

func TestRender(t *testing.T) {
	tests := []struct {
		name      string
		framework v1alpha1.Framework
		members   []Member
		role      string
		index     int32
		want      map[string]string
	}{
		{
			name:      "none: who I am and where the others are",
			framework: v1alpha1.FrameworkNone,
			members:   members("data-loader", "worker"),
			role:      "worker",
			want: map[string]string{
				"ROLE": "worker", "INDEX": "0",
				"DATA_LOADER_HOSTS": "127.0.0.1:20000", "WORKER_HOSTS": "127.0.0.1:20001", "PS_HOSTS": "",
			},
		},
		{
			name:      "TensorFlow: parameter servers and workers",
			framework: v1alpha1.FrameworkTensorFlow,
			members:   members("ps", "worker", "ps", "worker", "worker"),
			role:      "ps", index: 1,
			want: map[string]string{
				"ROLE": "ps", "INDEX": "1",
				"PS_HOSTS":     "127.0.0.1:20000,127.0.0.1:20002",
				"WORKER_HOSTS": "127.0.0.1:20001,127.0.0.1:20003,127.0.0.1:20004",
				"TF_CONFIG": `{"cluster":{"ps":["127.0.0.1:20000","127.0.0.1:20002"],` +
					`"worker":["127.0.0.1:20001","127.0.0.1:20003","127.0.0.1:20004"]},"task":{"type":"ps","index":1},"environment":"cloud"}`,
			},
		},
		{
			name:      "TensorFlow: an evaluator reads a cluster it is not part of",
			framework: v1alpha1.FrameworkTensorFlow,
			members:   members("chief", "worker", "evaluator"),
			role:      "evaluator",
			want: map[string]string{
				"ROLE": "evaluator", "INDEX": "0",
				"CHIEF_HOSTS": "127.0.0.1:20000", "WORKER_HOSTS": "127.0.0.1:20001", "PS_HOSTS": "",
				"EVALUATOR_HOSTS": "127.0.0.1:20002",
				"TF_CONFIG":       `{"cluster":{"chief":["127.0.0.1:20000"],"worker":["127.0.0.1:20001"]},"task":{"type":"evaluator","index":0},"environment":"cloud"}`,
			},
		},
		{
			name:      "TensorFlow: a role it does not know is not in the cluster",
			framework: v1alpha1.FrameworkTensorFlow,
			members:   members("worker", "board"),
			role:      "board",
			want: map[string]string{
				"ROLE": "board", "INDEX": "0",
				"BOARD_HOSTS": "127.0.0.1:20001", "WORKER_HOSTS": "127.0.0.1:20000", "PS_HOSTS": "",
			},
		},
		{
			name:      "PyTorch: ranks are chief, then workers",
			framework: v1alpha1.FrameworkPyTorch,
			members: []Member{
				{Role: "worker", Index: 0, Host: "b", Port: 2222, GPUs: 4},
				{Role: "chief", Index: 0, Host: "a", Port: 2222},
			},
			role: "worker",
			want: map[string]string{
				"ROLE": "worker", "INDEX": "0",
				"CHIEF_HOSTS": "a:2222", "WORKER_HOSTS": "b:2222", "PS_HOSTS": "",
				"MASTER_ADDR": "a", "MASTER_PORT": "2222", "WORLD_SIZE": "2", "RANK": "1",
				"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
				"GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2", "ROLE_RANK": "1", "ROLE_WORLD_SIZE": "2",
				"NODE_RANK": "1", "PET_NNODES": "2", "PET_NPROC_PER_NODE": "4", "PET_NODE_RANK": "1",
				"PET_MASTER_ADDR": "a", "PET_MASTER_PORT": "2222",
				"PET_RDZV_BACKEND": "static", "PET_RDZV_ENDPOINT": "a:2222", "PET_RDZV_ID": "resnet",
			},
		},
		{
			name:      "PyTorch: another role has no rank",
			framework: v1alpha1.FrameworkPyTorch,
			members:   members("worker", "board"),
			role:      "board",
			want: map[string]string{
				"ROLE": "board", "INDEX": "0",
				"BOARD_HOSTS": "127.0.0.1:20001", "WORKER_HOSTS": "127.0.0.1:20000", "PS_HOSTS": "",
				"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "20000", "WORLD_SIZE": "1",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			vars, err := render(Gang{Name: "resnet", Framework: tt.framework, Members: tt.members}, tt.role, tt.index)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, asMap(vars)); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTFConfig(t *testing.T) {
	tests := []struct {
		name    string
		sparse  bool
		members []Member
		role    string
		index   int32
		want    string
	}{
		{
			name: "a master is called so in the cluster", members: members("master", "worker"), role: "master",
			want: `{"cluster":{"master":["127.0.0.1:20000"],"worker":["127.0.0.1:20001"]},"task":{"type":"master","index":0},"environment":"cloud"}`,
		},
		{
			name: "sparse: a worker knows the parameter servers and itself", sparse: true, members: members("ps", "worker", "worker"), role: "worker", index: 1,
			want: `{"cluster":{"worker":{"1":"127.0.0.1:20002"},"ps":["127.0.0.1:20000"]},"task":{"type":"worker","index":1},"environment":"cloud"}`,
		},
		{
			name: "sparse: a parameter server knows itself", sparse: true, members: members("ps", "ps", "worker"), role: "ps", index: 1,
			want: `{"cluster":{"worker":{},"ps":{"1":"127.0.0.1:20001"}},"task":{"type":"ps","index":1},"environment":"cloud"}`,
		},
		{
			name: "sparse: the first parameter server has a list", sparse: true, members: members("ps", "ps", "worker"), role: "ps", index: 0,
			want: `{"cluster":{"worker":{},"ps":["127.0.0.1:20000"]},"task":{"type":"ps","index":0},"environment":"cloud"}`,
		},
		{
			name: "sparse: an evaluator reads the whole cluster", sparse: true, members: members("worker", "evaluator"), role: "evaluator",
			want: `{"cluster":{"worker":["127.0.0.1:20000"]},"task":{"type":"evaluator","index":0},"environment":"cloud"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			vars, err := render(Gang{Name: "g", Framework: v1alpha1.FrameworkTensorFlow, Members: tt.members, Sparse: tt.sparse}, tt.role, tt.index)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, asMap(vars)["TF_CONFIG"]); diff != "" {
				t.Errorf("TF_CONFIG (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRenderIsStable(t *testing.T) {
	table := members("ps", "worker", "worker", "chief")
	reversed := append([]Member{}, table...)
	for i, j := 0, len(reversed)-1; i < j; i, j = i+1, j-1 {
		reversed[i], reversed[j] = reversed[j], reversed[i]
	}
	for _, framework := range []v1alpha1.Framework{v1alpha1.FrameworkTensorFlow, v1alpha1.FrameworkPyTorch, v1alpha1.FrameworkNone} {
		a, errA := render(Gang{Name: "g", Framework: framework, Members: table}, "worker", 1)
		b, errB := render(Gang{Name: "g", Framework: framework, Members: reversed}, "worker", 1)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s: the order of the table changes the variables:\n%s", framework, diff)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	if _, err := render(Gang{Name: "g", Framework: "Caffe", Members: members("worker")}, "worker", 0); err == nil ||
		!strings.Contains(err.Error(), `"Caffe" is none of TensorFlow, PyTorch and None`) {
		t.Errorf("unknown framework: %v", err)
	}
	if _, err := render(Gang{Name: "g", Members: members("worker")}, "worker", 1); err == nil ||
		!strings.Contains(err.Error(), "no member worker-1") {
		t.Errorf("unknown member: %v", err)
	}
}

// TestRefer has members read what is common from a ConfigMap: with its data in
// place, by Kubernetes' rules, each must end up with the same values, and none
// may carry a list itself.
func TestRefer(t *testing.T) {
	everybody := members("chief", "ps", "ps", "worker", "worker", "worker", "evaluator", "data")
	for _, framework := range []v1alpha1.Framework{v1alpha1.FrameworkTensorFlow, v1alpha1.FrameworkPyTorch, v1alpha1.FrameworkNone} {
		for _, sparse := range []bool{false, true} {
			g := Gang{Name: "g", Framework: framework, Members: everybody, Sparse: sparse}
			own, err := NewTable(g)
			if err != nil {
				t.Fatal(err)
			}
			shared, _ := NewTable(g)
			shared.Refer("peers")
			for _, m := range everybody {
				want, err := own.Render(m.Role, m.Index)
				if err != nil {
					t.Fatal(err)
				}
				told, err := shared.Render(m.Role, m.Index)
				if err != nil {
					t.Fatal(err)
				}
				got := resolved(t, told, shared.Common())
				delete(got, clusterVar)
				if diff := cmp.Diff(asMap(want), got); diff != "" {
					t.Errorf("%s-%d, %s, sparse %v (-own +shared):\n%s", m.Role, m.Index, framework, sparse, diff)
				}
			}
		}
	}
}

// resolved are variables as a kubelet sets them.
func resolved(t *testing.T, vars []corev1.EnvVar, data map[string]string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, v := range vars {
		if v.ValueFrom == nil {
			if strings.HasSuffix(v.Name, "_HOSTS") {
				t.Errorf("%s is a copy", v.Name)
			}
			out[v.Name] = expansion.Expand(v.Value, func(name string) (string, bool) { value, there := out[name]; return value, there })
			continue
		}
		ref := v.ValueFrom.ConfigMapKeyRef
		value, there := data[ref.Key]
		if ref.Name != "peers" || !there {
			t.Errorf("%s is to be found in %q of %q", v.Name, ref.Key, ref.Name)
		}
		out[v.Name] = value
	}
	return out
}
