// Package status is the command `muster status`.
package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/standstill"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// Report is what `muster status -o json` prints.
type Report struct {
	Home  string         `json:"home"`
	Alive bool           `json:"alive"`
	State instance.State `json:"state"`
	// Error says why the rest is missing.
	Error string       `json:"error,omitempty"`
	Nodes []NodeReport `json:"nodes,omitempty"`
	// Jobs counts jobs by phase.
	Jobs map[v1alpha1.JobPhase]int `json:"jobs,omitempty"`
	// Paused is the pause of all scheduling, if there is one.
	Paused *standstill.Standstill `json:"paused,omitempty"`

	// byNamespace counts jobs by namespace and phase.
	byNamespace map[string]map[v1alpha1.JobPhase]int
}

// NodeReport is one node.
type NodeReport struct {
	Name     string               `json:"name"`
	Ready    bool                 `json:"ready"`
	Tier     string               `json:"tier,omitempty"`
	CPU      string               `json:"cpu"`
	Memory   string               `json:"memory"`
	GPUs     []v1alpha1.GPUDevice `json:"gpus,omitempty"`
	GoneGPUs []device.Gone        `json:"goneGPUs,omitempty"`
	// Shared are the GPUs of which pods hold parts.
	Shared      []SharedGPU             `json:"shared,omitempty"`
	HostPorts   *v1alpha1.PortRange     `json:"hostPorts,omitempty"`
	Quarantined []string                `json:"quarantined,omitempty"`
	Pods        map[corev1.PodPhase]int `json:"pods,omitempty"`
}

// SharedGPU is a GPU of which pods hold parts.
type SharedGPU struct {
	Index int    `json:"index"`
	UUID  string `json:"uuid"`
	// Holders are ordered by when they began.
	Holders []device.Holder `json:"holders"`
}

type options struct {
	factory *connection.Factory
	format  *output.Format
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:     "status",
		GroupID: "machine",
		Short:   "Say whether Muster runs here, and how it is",
		Long: `Says whether Muster runs on this machine, how its node is kept apart (tier),
which GPUs it has, what runs, and what it found running that it does not know.

Exit code 3 where no Muster is running.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.format = output.Flag(cmd, output.JSON, output.YAML)
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if err := o.format.Validate(output.JSON, output.YAML); err != nil {
		return err
	}
	report, err := o.read(ctx)
	if err != nil {
		return err
	}
	if *o.format != output.Human {
		err = output.Print(o.factory.Streams.Out, *o.format, report)
	} else {
		err = o.print(report)
	}
	if err == nil && !report.Alive {
		return exit.With(exit.Missing, nil)
	}
	return err
}

func (o *options) read(ctx context.Context) (Report, error) {
	if o.factory.AsksDoor() {
		return atDoor(ctx, o.factory)
	}
	dir, err := o.factory.Home()
	if err != nil {
		return Report{}, err
	}
	r := Report{Home: dir}
	if r.State, r.Alive, err = instance.Home(dir).Read(); err != nil || !r.Alive {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := o.readCluster(ctx, &r); err != nil {
		r.Error = err.Error()
	}
	return r, nil
}

func (o *options) readCluster(ctx context.Context, r *Report) error {
	api, err := o.factory.Client()
	if err != nil {
		return err
	}
	return r.read(ctx, api)
}

func describeNode(node *corev1.Node, pods []corev1.Pod) NodeReport {
	n := NodeReport{
		Name: node.Name, Tier: node.Labels["muster.dev/tier"],
		CPU: node.Status.Capacity.Cpu().String(), Memory: node.Status.Capacity.Memory().String(),
		Pods: map[corev1.PodPhase]int{},
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			n.Ready = c.Status == corev1.ConditionTrue
		}
	}
	// An annotation that cannot be read shows as a node without GPUs.
	inventory, _ := device.Inventory(node)
	n.GPUs, n.HostPorts, n.Quarantined = inventory.GPUs, inventory.HostPorts, inventory.Quarantined
	n.GoneGPUs = device.GoneFrom(node, pods)
	n.Shared = shared(node.Name, n.GPUs, pods)
	for _, pod := range pods {
		if pod.Spec.NodeName == node.Name {
			n.Pods[pod.Status.Phase]++
		}
	}
	return n
}

// shared are those of the GPUs of a node of which pods hold parts.
func shared(node string, gpus []v1alpha1.GPUDevice, pods []corev1.Pod) []SharedGPU {
	holders := map[string][]device.Holder{}
	for i := range pods {
		if pods[i].Spec.NodeName != node || !device.Holds(&pods[i]) || device.ShareOf(&pods[i]) == nil {
			continue
		}
		for _, uuid := range device.Of(&pods[i]) {
			holders[uuid] = append(holders[uuid], device.HolderOf(&pods[i]))
		}
	}
	var out []SharedGPU
	for _, gpu := range gpus {
		one := SharedGPU{Index: gpu.Index, UUID: gpu.UUID, Holders: holders[gpu.UUID]}
		slices.SortFunc(one.Holders, func(a, b device.Holder) int {
			return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.String(), b.String()))
		})
		if len(one.Holders) > 0 {
			out = append(out, one)
		}
	}
	return out
}

// words is "0: vision/a worker-0 (500m, 40 GiB), vision/b worker-0 (250m, 20 GiB)".
func (g SharedGPU) words() string {
	words := make([]string, len(g.Holders))
	for i, h := range g.Holders {
		words[i] = h.String() + " (" + h.ShareText() + ")"
	}
	return fmt.Sprintf("%d: %s", g.Index, strings.Join(words, ", "))
}

func (o *options) print(r Report) error {
	out, style := o.factory.Streams.Out, o.factory.Streams.OutStyle()
	table := terminal.NewTable()
	if !r.Alive {
		word := "not running"
		if r.State.Phase == instance.Failed {
			word = "not running; the last start failed: " + r.State.Error
		}
		table.Row("muster", word).Row("home", r.Home).Row("start it", "muster up --detach")
		return table.Write(out, style, "")
	}
	words := []string{cmp.Or(string(r.State.Phase), "ready"), "version " + r.State.Version}
	if r.State.PID != 0 {
		words = append(words, fmt.Sprintf("process %d", r.State.PID))
	}
	if !r.State.Started.IsZero() {
		words = append(words, "up "+terminal.WholeSpan(time.Since(r.State.Started)))
	}
	table.Row("muster", strings.Join(words, ", "))
	if r.State.Phase == instance.Ready {
		table.Paint(1, terminal.Green)
	}
	for _, one := range [][2]string{{"server", r.State.Server}, {"home", r.Home}} {
		if one[1] != "" {
			table.Row(one[0], one[1])
		}
	}
	if r.Error != "" {
		table.Row("trouble", r.Error).Paint(1, terminal.Red)
	}
	if r.State.LowRoom != "" {
		table.Row("disk", r.State.LowRoom).Paint(1, terminal.Red)
	}
	if r.State.S3 != "" {
		table.Row("S3", r.State.S3+" (`muster data key create` makes a key)")
	}
	switch {
	case r.State.Console != "":
		table.Row("console", r.State.Console+" (`muster console` signs you in)")
	case r.State.NoConsole != "":
		table.Row("console", "none: "+r.State.NoConsole).Paint(1, terminal.Yellow)
	}
	if r.Paused != nil {
		table.Row("paused", r.Paused.String()+" (`"+r.Paused.Remedy()+"` ends it)").Paint(1, terminal.Yellow)
	}
	for _, n := range r.Nodes {
		n.rows(table, r.State)
	}
	if len(r.Nodes) > 0 {
		table.Row("jobs", counts(r.Jobs, v1alpha1.JobRunning, v1alpha1.JobStarting, v1alpha1.JobWaiting, v1alpha1.JobPreparing, v1alpha1.JobSuspended, v1alpha1.JobSucceeded, v1alpha1.JobFailed))
	}
	return table.Write(out, style, "")
}

func (n NodeReport) rows(table *terminal.Table, state instance.State) {
	ready := "ready"
	if !n.Ready {
		ready = "not ready"
	}
	table.Row("node", fmt.Sprintf("%s, %s, %s CPUs, %s", n.Name, ready, n.CPU, memory(n.Memory)))
	tier := n.Tier
	if state.TierReason != "" {
		tier += " (" + state.TierReason + ")"
	}
	table.Row("tier", tier)
	gpus := "none"
	if len(n.GPUs) > 0 {
		gpus = gpuWords(n.GPUs)
	}
	table.Row("GPUs", gpus)
	for _, gpu := range n.Shared {
		table.Row("GPU shared", gpu.words())
	}
	for _, words := range device.Words(n.GoneGPUs) {
		table.Row("GPUs gone", words).Paint(1, terminal.Red)
	}
	if state.Guard != "" {
		table.Row("guard", state.Guard)
	}
	if state.Images != "" {
		table.Row("images", state.Images)
	}
	table.Row("pods", counts(n.Pods, corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed))
	for _, unknown := range n.Quarantined {
		table.Row("unknown", unknown).Paint(1, terminal.Yellow)
	}
}

// memory writes a quantity of bytes in words: "23.5 GiB".
func memory(quantity string) string {
	amount, err := resource.ParseQuantity(quantity)
	if err != nil {
		return quantity
	}
	return terminal.Size64(amount.Value())
}

// gpuWords is "2 x A100, 6 x H100 (simulated)".
func gpuWords(devices []v1alpha1.GPUDevice) string {
	var order []string
	count := map[string]int{}
	for _, d := range devices {
		name := d.Model
		if d.Simulated {
			name += " (simulated)"
		}
		if count[name] == 0 {
			order = append(order, name)
		}
		count[name]++
	}
	for i, name := range order {
		order[i] = fmt.Sprintf("%d x %s", count[name], name)
	}
	return strings.Join(order, ", ")
}

func counts[P ~string](by map[P]int, phases ...P) string {
	var words []string
	for _, phase := range phases {
		if n := by[phase]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, strings.ToLower(string(phase))))
		}
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
