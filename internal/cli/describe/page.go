package describe

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// write prints the page.
func (p *page) write(out io.Writer, style terminal.Style) error {
	var text strings.Builder
	status := p.job.Status
	phase := string(status.Phase)
	if phase == "" {
		phase = "Accepted"
	}
	fmt.Fprintf(&text, "%s  %s", style.Paint(terminal.Bold, p.job.Name), style.Phase(phase, phase))
	if status.Message != "" {
		fmt.Fprintf(&text, ": %s", status.Message)
	}
	text.WriteString("\n\n")
	steps := []func(io.Writer, terminal.Style) error{p.facts, p.roles, p.members, p.recent}
	for _, step := range steps {
		if err := step(&text, style); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// facts are the job's single values.
func (p *page) facts(out io.Writer, style terminal.Style) error {
	job, status := p.job, p.job.Status
	table := terminal.NewTable()
	add := func(name, value string) {
		if value != "" {
			table.Row(name, value)
		}
	}
	add("Namespace", job.Namespace)
	add("Framework", string(job.Spec.Framework))
	add("Queue", job.Spec.Queue)
	add("Priority", job.Spec.PriorityClassName)
	add("Submitted", p.ago(&job.CreationTimestamp)+by(job))
	add("Started", p.ago(status.StartTime))
	add("Finished", p.ago(status.FinishTime))
	if status.StartTime != nil {
		end := p.now
		if status.FinishTime != nil {
			end = status.FinishTime.Time
		}
		add("Ran", terminal.WholeSpan(end.Sub(status.StartTime.Time)))
	}
	if status.LastWorkerTime != nil && status.DrainedTime != nil {
		add("All gone", terminal.Span(status.DrainedTime.Sub(status.LastWorkerTime.Time))+" after the last worker's end")
	}
	if job.Spec.ActiveDeadlineSeconds != nil {
		add("Time limit", terminal.Span(time.Duration(*job.Spec.ActiveDeadlineSeconds)*time.Second))
	}
	if job.Spec.ExpectedRunTime != nil {
		add("Expected", "to run for "+terminal.Span(job.Spec.ExpectedRunTime.Duration))
	}
	add("Progress", p.progress())
	add("Reports", p.misunderstood())
	add("Ends", p.ends)
	add("Last saved", p.saved())
	if job.Spec.Resumable {
		add("Resumable", "yes: it may be stopped to make room, and goes on from its last checkpoint")
	}
	if status.StartTime != nil {
		add("GPU seconds", fmt.Sprintf("%.1f of ended members", status.GPUSeconds.AsApproximateFloat64()))
		add("CPU seconds", fmt.Sprintf("%.1f of ended members", status.CPUSeconds.AsApproximateFloat64()))
	}
	add("GPUs idle", heldIdle(status))
	add("For data", heldForData(status))
	limit := int32(6)
	if job.Spec.BackoffLimit != nil {
		limit = *job.Spec.BackoffLimit
	}
	add("Restarts", fmt.Sprintf("%d of at most %d", status.Restarts, limit))
	add("Evictions", evictions(status))
	add("Given back", givenBack(status))
	add("Environment", environment(job))
	add("No effect", p.without)
	add("Code", code(job))
	for _, volume := range job.Spec.Volumes {
		from := "claim " + volume.Claim
		if volume.Size != nil {
			from = "new, " + volume.Size.String()
		}
		add("Volume", volume.MountPath+" ("+from+")")
	}
	for _, d := range reads(job) {
		add("Data", d)
	}
	add("Checkpoints", checkpoints(job))
	return table.Write(out, style, "")
}

// givenBack is which members made room for others, the latest last; empty if
// none did.
func givenBack(status v1alpha1.TrainingJobStatus) string {
	names := strings.Join(status.GivenBack, ", ")
	if more := int(status.Shrunk) - len(status.GivenBack); more > 0 {
		return fmt.Sprintf("%d members, the last: %s", status.Shrunk, names)
	}
	return names
}

// heldIdle is for how long GPUs were held while not all members ran: "12.5 GPU seconds
// until all had started, 0.4 GPU seconds while they ended"; "" for a job that held none.
func heldIdle(status v1alpha1.TrainingJobStatus) string {
	var parts []string
	if start := status.GPUStartSeconds; start != nil {
		parts = append(parts, fmt.Sprintf("%.1f GPU seconds until all had started", start.AsApproximateFloat64()))
	}
	if end := status.GPUEndSeconds; end != nil {
		parts = append(parts, fmt.Sprintf("%.1f GPU seconds while they ended", end.AsApproximateFloat64()))
	}
	return strings.Join(parts, ", ")
}

// heldForData is for how long places were held until data was there.
func heldForData(status v1alpha1.TrainingJobStatus) string {
	if status.DataSeconds == nil {
		return ""
	}
	text := fmt.Sprintf("its place was held for %.1f seconds until that was on its nodes", status.DataSeconds.AsApproximateFloat64())
	if gpus := status.DataGPUSeconds; gpus != nil && !gpus.IsZero() {
		text += fmt.Sprintf(", %.1f GPU seconds", gpus.AsApproximateFloat64())
	}
	return text
}

// evictions is how often the job made room, and for whom the last time: "1, for
// vision/resnet"; "" for a job that never did.
func evictions(status v1alpha1.TrainingJobStatus) string {
	switch status.Evictions {
	case 0:
		return ""
	case 1:
		return "1, for " + status.EvictedFor
	}
	return fmt.Sprintf("%d, the last for %s", status.Evictions, status.EvictedFor)
}

func by(job *v1alpha1.TrainingJob) string {
	if who := job.Annotations[v1alpha1.AnnotationSubmitter]; who != "" {
		return " by " + who
	}
	return ""
}

func (p *page) ago(at *metav1.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	return at.Local().Format("2006-01-02 15:04:05") + " (" + terminal.WholeSpan(p.now.Sub(at.Time)) + " ago)"
}

func environment(job *v1alpha1.TrainingJob) string {
	spec := job.Spec.Environment
	version := ""
	if spec != nil && spec.Python != "" {
		version = ", Python " + spec.Python
	}
	switch {
	case spec == nil:
		return ofTemplates(job)
	case spec.Image != "":
		return "image " + spec.Image
	case spec.Path != "":
		return spec.Path
	case spec.Requirements != "":
		lines := 0
		for line := range strings.Lines(spec.Requirements) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines++
			}
		}
		key := ""
		if job.Status.EnvironmentKey != "" {
			key = ", key " + short(job.Status.EnvironmentKey)
		}
		return terminal.Count(int64(lines), "requirement") + version + key
	}
	return strings.TrimPrefix(version, ", ")
}

// ofTemplates is the environment of a job that names none: the images of its templates,
// or the machine's Python.
func ofTemplates(job *v1alpha1.TrainingJob) string {
	var images []string
	for i := range job.Spec.Roles {
		template := job.Spec.Roles[i].Template
		if template == nil || len(template.Spec.Containers) == 0 {
			continue
		}
		if image := template.Spec.Containers[0].Image; image != "" && image != v1alpha1.HostImage && !slices.Contains(images, image) {
			images = append(images, image)
		}
	}
	switch len(images) {
	case 0:
		return "the machine's own Python"
	case 1:
		return "image " + images[0]
	}
	return "images " + strings.Join(images, ", ")
}

func code(job *v1alpha1.TrainingJob) string {
	digest := job.Status.CodeSnapshot
	switch {
	case job.Spec.Code == nil:
		return ""
	case job.Spec.Code.URL != "" && digest != "":
		return job.Spec.Code.URL + " (" + short(digest) + ")"
	case job.Spec.Code.URL != "":
		return job.Spec.Code.URL
	}
	return "snapshot " + short(job.Spec.Code.Snapshot)
}

func checkpoints(job *v1alpha1.TrainingJob) string {
	spec := job.Spec.Checkpoints
	switch {
	case spec != nil && spec.None:
		return "none: Muster does not manage the job's checkpoints"
	case spec != nil && spec.Claim != "":
		return "claim " + spec.Claim
	case spec != nil && spec.Size != nil:
		return "new claim of " + spec.Size.String()
	}
	return "new claim of 10Gi"
}

// short shortens a digest to what people compare.
func short(digest string) string {
	prefix, hex, found := strings.Cut(digest, ":")
	if !found {
		return digest[:min(12, len(digest))]
	}
	return prefix + ":" + hex[:min(12, len(hex))]
}

// roles is the table of what was asked for and how it stands.
func (p *page) roles(out io.Writer, style terminal.Style) error {
	table := terminal.NewTable("ROLE", "WANTED", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "GPUS EACH", "RUNS")
	for _, role := range p.job.Spec.Roles {
		counts := v1alpha1.RoleStatus{Wanted: 1}
		if role.Replicas != nil {
			counts.Wanted = *role.Replicas
		}
		for _, known := range p.job.Status.Roles {
			if known.Name == role.Name {
				counts = known
			}
		}
		gpus := device.Asked(&role)
		if len(role.GPUModels) > 0 {
			gpus += " " + strings.Join(role.GPUModels, " or ")
		}
		wanted := fmt.Sprint(counts.Wanted)
		if role.MinReplicas != nil && *role.MinReplicas < counts.Wanted {
			wanted = fmt.Sprintf("%d..%d", *role.MinReplicas, counts.Wanted)
		}
		table.Row(role.Name, wanted, fmt.Sprint(counts.Pending), fmt.Sprint(counts.Running),
			fmt.Sprint(counts.Succeeded), fmt.Sprint(counts.Failed), gpus, program(role))
	}
	if err := section(out, style, table); err != nil {
		return err
	}
	return p.shares(out)
}

// shares says of every role that has a part of a GPU how much that is and
// whether it is enforced.
func (p *page) shares(out io.Writer) error {
	for _, role := range p.job.Status.Roles {
		if role.GPUShare == "" {
			continue
		}
		if _, err := fmt.Fprintf(out, "\nGPU share of %s: %s\n", role.Name, role.GPUShare); err != nil {
			return err
		}
	}
	return nil
}

// program is a role's command on one line.
func program(role v1alpha1.Role) string {
	words := slices.Concat(role.Command, role.Args)
	if role.Script != "" {
		words = append([]string{role.Script}, role.Args...)
	}
	line := strings.Join(words, " ")
	if runes := []rune(line); len(runes) > 60 {
		line = string(runes[:59]) + "…"
	}
	return line
}

// members is the table of the job's pods.
func (p *page) members(out io.Writer, style terminal.Style) error {
	table := terminal.NewTable("MEMBER", "STATE", "NODE", "GPUS", "PORT", "AGE", "NOTE")
	for i := range p.pods {
		pod := &p.pods[i]
		m, _ := member.OfPod(pod)
		state, note := State(pod)
		table.Row(m.String(), state, pod.Spec.NodeName, p.devices(pod), pod.Annotations[v1alpha1.AnnotationPort],
			terminal.WholeSpan(p.now.Sub(pod.CreationTimestamp.Time)), note)
		table.Paint(1, phaseColour(state))
	}
	if table.Len() == 0 {
		return nil
	}
	return section(out, style, table)
}

func phaseColour(state string) terminal.Colour {
	switch state {
	case "Running":
		return terminal.Green
	case "Succeeded":
		return terminal.Blue
	case "Pending", "Ending":
		return terminal.Yellow
	}
	return terminal.Red
}

// State is a pod's state in one word, and what else there is to say.
func State(pod *corev1.Pod) (state, note string) {
	state, note = string(pod.Status.Phase), pod.Status.Message
	if pod.Status.Reason != "" {
		state = pod.Status.Reason
	}
	for _, container := range pod.Status.ContainerStatuses {
		switch {
		case container.State.Terminated != nil && container.State.Terminated.ExitCode != 0:
			ended := container.State.Terminated
			if ended.Reason != "" && ended.Reason != "Error" {
				state = ended.Reason
			}
			note = strings.TrimSpace(fmt.Sprintf("exit code %d %s", ended.ExitCode, firstLine(ended.Message)))
		case container.State.Waiting != nil && container.State.Waiting.Message != "":
			note = container.State.Waiting.Message
		}
	}
	if pod.DeletionTimestamp != nil {
		state = "Ending"
	}
	if state == "" {
		state = "Pending"
	}
	return state, firstLine(note)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// devices are a pod's GPUs, by index and model where their node tells.
func (p *page) devices(pod *corev1.Pod) string {
	var names []string
	part := ""
	if text := device.HolderOf(pod).ShareText(); text != "" {
		part = text + " of "
	}
	if words := device.Counted(device.Of(pod)); words != "" {
		return words
	}
	for _, uuid := range device.Of(pod) {
		gpu, known := p.gpus[uuid]
		switch {
		case !known:
			names = append(names, uuid)
		case gpu.Simulated:
			names = append(names, fmt.Sprintf("%d (%s, simulated)", gpu.Index, gpu.Model))
		default:
			names = append(names, fmt.Sprintf("%d (%s)", gpu.Index, gpu.Model))
		}
	}
	return part + strings.Join(names, ", ")
}

// recent is the table of events.
func (p *page) recent(out io.Writer, style terminal.Style) error {
	table := terminal.NewTable("SINCE", "EVENT", "OF", "WHAT")
	for i := range p.events {
		event := &p.events[i]
		table.Row(terminal.WholeSpan(p.now.Sub(eventTime(event))), event.Reason, event.InvolvedObject.Name, firstLine(event.Message))
		if event.Type == corev1.EventTypeWarning {
			table.Paint(1, terminal.Yellow)
		}
	}
	if table.Len() == 0 {
		return nil
	}
	return section(out, style, table)
}

func section(out io.Writer, style terminal.Style, table *terminal.Table) error {
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return table.Write(out, style, "")
}
