package top

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/terminal"
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
	seen := full.seen("ada")
	text, err := json.Marshal(seen)
	if err != nil || strings.Contains(string(text), "eve") || strings.Contains(string(text), "covert") || strings.Contains(string(text), "42%") {
		t.Errorf("it tells of eve: %s %v", text, err)
	}
	if after, _ := json.Marshal(full); string(after) != string(before) {
		t.Error("what it was made from is changed")
	}
	gpus := seen.Nodes[0].GPUs
	if *gpus[1].Holder != ada || gpus[2].Sharers[1] != ada || !gpus[0].Holder.Since.Equal(since) || gpus[0].Holder.Namespace != Others {
		t.Errorf("%s", text)
	}
	var out strings.Builder
	if err := seen.write(&out, terminal.Coloured(false), since); err != nil || !strings.Contains(out.String(), Others) {
		t.Errorf("%v:\n%s", err, out.String())
	}
}
