package top

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/visibility"
)

func TestSeen(t *testing.T) {
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	eve := device.Holder{Namespace: "eve", Job: "covert", Member: "worker-0", Pod: "covert-worker-0", Since: since, Done: "42%"}
	ada := device.Holder{Namespace: "ada", Job: "mnist", Member: "worker-0", Pod: "mnist-worker-0", Since: since}
	full := Report{Nodes: []Node{{
		Name: "one", Pods: 2, Quarantined: []string{"covert.py of eve"},
		GoneGPUs: []device.Gone{{UUID: "GPU-9", Holder: eve}},
		GPUs: []GPU{
			{GPUDevice: v1alpha1.GPUDevice{UUID: "GPU-0", Foreign: []v1alpha1.ForeignProcess{{PID: 1, User: "eve", Command: "covert"}}}, Holder: &eve},
			{GPUDevice: v1alpha1.GPUDevice{UUID: "GPU-1"}, Holder: &ada},
			{GPUDevice: v1alpha1.GPUDevice{UUID: "GPU-2"}, Sharers: []device.Holder{eve, ada}},
		},
	}}}
	before, _ := json.Marshal(full)
	seen := full.seen(visibility.Rule{Own: "ada"}, nil)
	text, err := json.Marshal(seen)
	if err != nil || strings.Contains(string(text), "eve") || strings.Contains(string(text), "covert") || strings.Contains(string(text), "42%") {
		t.Errorf("it tells of eve: %s %v", text, err)
	}
	if after, _ := json.Marshal(full); string(after) != string(before) {
		t.Error("what it was made from is changed")
	}
	gpus := seen.Nodes[0].GPUs
	if *gpus[1].Holder != ada || gpus[2].Sharers[1] != ada || !gpus[0].Holder.Since.Equal(since) || gpus[0].Holder.Namespace != visibility.Others {
		t.Errorf("%s", text)
	}
	var out strings.Builder
	if err := seen.write(&out, terminal.Coloured(false), since); err != nil || !strings.Contains(out.String(), visibility.Others) {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

// TestSeenOnAMachine: everybody sees the login of who holds a GPU, since when, and by which
// queue; administrators see the job as well.
func TestSeenOnAMachine(t *testing.T) {
	now := time.Date(2026, 3, 1, 15, 0, 0, 0, time.UTC)
	logins := func(uid uint32) string { return map[uint32]string{1001: "ann", 1002: "eve", 1003: "uid 1003"}[uid] }
	eve := device.Holder{Namespace: "u-1002", Job: "covert", Member: "worker-0", Pod: "covert-worker-0", Since: now.Add(-3 * time.Hour), Queue: "vision"}
	gone := device.Holder{Namespace: "u-1003", Pod: "debug", Since: now.Add(-time.Hour)}
	full := Report{Nodes: []Node{{Name: "box", Ready: true, GPUs: []GPU{
		{GPUDevice: v1alpha1.GPUDevice{Index: 0, Model: "A100"}, Holder: &eve},
		{GPUDevice: v1alpha1.GPUDevice{Index: 1, Model: "A100"}, Holder: &gone},
		{GPUDevice: v1alpha1.GPUDevice{Index: 2, Model: "A100", Foreign: []v1alpha1.ForeignProcess{{PID: 7, User: "eve", Command: "covert.py"}}}},
		{GPUDevice: v1alpha1.GPUDevice{Index: 3, Model: "A100", Foreign: []v1alpha1.ForeignProcess{{PID: 8, User: "ann", Command: "mine.py"}}}},
	}}}}
	for name, c := range map[string]struct {
		rule visibility.Rule
		want [4]string
	}{
		"ann":              {visibility.Rule{Own: "u-1001", Login: "ann", ShowUsers: true}, [4]string{"eve 3h 0m", "uid 1003 1h 0m", "process 7 of eve, not Muster's", "process 8 of ann (mine.py), not Muster's"}},
		"an administrator": {visibility.Rule{Own: "u-0", Login: "root", Administrator: true, ShowUsers: true}, [4]string{"eve/covert worker-0 3h 0m", "uid 1003/debug 1h 0m", "process 7 of eve (covert.py), not Muster's", "process 8 of ann (mine.py), not Muster's"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := full.seen(c.rule, logins).write(&out, terminal.Coloured(false), now); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			for i, want := range c.want {
				line := strings.Join(strings.Fields(lines[len(lines)-4+i]), " ")
				if !strings.HasSuffix(line, "GiB "+want) && !strings.HasSuffix(line, " B "+want) {
					t.Errorf("%q does not end with %q", line, want)
				}
			}
		})
	}
	if got := full.seen(visibility.Rule{Own: "u-1001", ShowUsers: true}, logins).Nodes[0].GPUs[0].Holder; got.User != "eve" || got.Queue != "vision" || got.Job != "" {
		t.Errorf("%+v", got)
	}
}
