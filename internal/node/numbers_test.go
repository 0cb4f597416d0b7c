package node

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/node/rig"
)

// driven shows simulated GPUs as a driver would: with device files, which this machine
// need not have.
type driven struct{ gpu.Source }

func (d driven) Devices(ctx context.Context) ([]gpu.Device, error) {
	devices, err := d.Source.Devices(ctx)
	for i := range devices {
		devices[i].Simulated, devices[i].Node = false, "/dev/nvidia"+string(rune('0'+i))
	}
	return devices, err
}

// TestNumbersOfGPUs: containers are told numbers of GPUs if they have no device files of
// others, and UUIDs otherwise.
func TestNumbersOfGPUs(t *testing.T) {
	source := driven{simulated(t, "4xA100")}
	eachTier(t, func(c *Config) { c.GPUs = source }, func(t *testing.T, w *world) {
		devices := w.inventoryOf().GPUs
		uuids := devices[1].UUID + "," + devices[3].UUID
		unknown, numbers := uuids+" "+uuids, "0,1 "+uuids
		isolated := strings.HasSuffix(t.Name(), "/isolated")
		told := func(isolatedOrder, plainOrder string) string {
			if isolated {
				return numbers + isolatedOrder
			}
			return unknown + plainOrder
		}
		mount := func(p *corev1.Pod) {
			if isolated { // the plain tier refuses such a mount
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/dev/null"}}})
				p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: "/dev/nvidia0"})
			}
		}
		set := func(name, value string) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: name, Value: value})
			}
		}
		for name, c := range map[string]struct {
			edit func(*corev1.Pod)
			want string
		}{
			"whole":  {func(*corev1.Pod) {}, told(" PCI_BUS_ID", "")},
			"order":  {set(gpu.OrderVariable, "FASTEST_FIRST"), told(" FASTEST_FIRST", " FASTEST_FIRST")},
			"own":    {set("CUDA_VISIBLE_DEVICES", "2"), told(" PCI_BUS_ID", "")},
			"mps":    {set("CUDA_MPS_PIPE_DIRECTORY", "/mps"), unknown},
			"device": {mount, unknown},
		} {
			said := rig.NewPipe(t)
			script := said.Say(`"$CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER"`)
			w.create(newPod(name, script).with(withGPUs(devices[1].UUID, devices[3].UUID)).with(c.edit))
			if pod := w.await(name, "end", ended); pod.Status.Phase != corev1.PodSucceeded {
				t.Fatalf("%s: %s", name, pod.Status.Message)
			}
			if got := strings.TrimSpace(said.Hear()); got != c.want {
				t.Errorf("%s: it is told %q, want %q", name, got, c.want)
			}
		}
	})
}
