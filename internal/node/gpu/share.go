package gpu

import (
	"fmt"
	"strconv"
	"strings"
)

// Share is a part of one device.
type Share struct {
	// Milli is how much of it, in thousandths.
	Milli int64
	// MemoryMiB is how much of its memory; 0 where the device does not tell how
	// much it has.
	MemoryMiB int64
}

// The variables that tell a container its part of a GPU.
const (
	// ShareMilliVariable is the part in thousandths: "250".
	ShareMilliVariable = "MUSTER_GPU_MILLI"
	// ShareMemoryVariable is the part's memory in MiB: "20480", as TensorFlow's
	// set_logical_device_configuration takes it.
	ShareMemoryVariable = "MUSTER_GPU_MEMORY_MIB"
	// ShareFractionVariable is the part's memory as a fraction of the GPU's:
	// "0.25", as PyTorch's set_per_process_memory_fraction takes it.
	ShareFractionVariable = "MUSTER_GPU_MEMORY_FRACTION"
)

// Variable is an environment variable. It is set where the container has
// neither it nor one of Unless.
type Variable struct {
	Name, Value string
	Unless      []string
}

// ShareEnviron gives the variables for a container that has a part of a device:
// Muster's own, for programs that read them, and those by which frameworks take
// no more memory than they need or are told to:
//
//   - TF_FORCE_GPU_ALLOW_GROWTH has TensorFlow take memory as it needs it, and
//     not all there is. It is no limit.
//   - XLA_PYTHON_CLIENT_MEM_FRACTION limits JAX. Newer releases fail when
//     XLA_CLIENT_MEM_FRACTION is set beside it.
//
// PyTorch is left alone: its releases before 2.10 fail on an allocator setting
// that they do not know, and none of the variables that they do know limits
// memory. Scripts call torch.cuda.set_per_process_memory_fraction.
func ShareEnviron(d Device, s Share) []Variable {
	vars := []Variable{{Name: ShareMilliVariable, Value: strconv.FormatInt(s.Milli, 10)}}
	if s.MemoryMiB == 0 || d.MemoryMiB == 0 {
		return vars
	}
	fraction := fractionOf(s.MemoryMiB, d.MemoryMiB)
	vars = append(vars, Variable{Name: ShareMemoryVariable, Value: strconv.FormatInt(s.MemoryMiB, 10)},
		Variable{Name: ShareFractionVariable, Value: fraction})
	if d.Simulated {
		return vars
	}
	return append(vars, Variable{Name: "TF_FORCE_GPU_ALLOW_GROWTH", Value: "true"},
		Variable{Name: "XLA_PYTHON_CLIENT_MEM_FRACTION", Value: fraction, Unless: []string{"XLA_CLIENT_MEM_FRACTION"}})
}

// fractionOf is part of whole with four digits, rounded down: "0.25", "0.3333".
func fractionOf(part, whole int64) string {
	text := fmt.Sprintf("%d.%04d", part/whole, part%whole*10000/whole)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// Enforcement says whether a container that takes more memory than its part of a
// device is kept from it.
type Enforcement struct {
	// Enforced is true where an allocation beyond the part fails.
	Enforced bool
	// Why says by what, or why not, in a few words.
	Why string
}

// String is "enforced by ..." or "not enforced: ...".
func (e Enforcement) String() string {
	if e.Enforced {
		return "enforced " + e.Why
	}
	return "not enforced: " + e.Why
}

// Circumstances are what enforcing a part of a device depends on.
type Circumstances struct {
	// Device is the device, and Devices how many the machine has.
	Device  Device
	Devices int
	// Share is the part.
	Share Share
	// Isolated is true for a container with an IPC namespace of its own, where
	// MPS cannot be reached.
	Isolated bool
	// OtherUser is true for a container that runs as another user than Muster.
	OtherUser bool
	// MPS is the service that was found, nil with the reason in NoMPS.
	MPS   *MPS
	NoMPS string
	// Driver is the driver's version, "535.129.03"; empty if it cannot be read.
	Driver string
	// Own are the variables of MPS that the container sets itself.
	Own []string
}

// Enforce says whether the part is enforced. It claims so only where it is
// certain: everything else is "not enforced", with the reason.
func Enforce(c Circumstances) Enforcement {
	not := func(format string, args ...any) Enforcement { return Enforcement{Why: fmt.Sprintf(format, args...)} }
	switch {
	case c.Device.Simulated:
		return not("the GPU is simulated")
	case c.Share.MemoryMiB == 0:
		return not("the GPU does not tell how much memory it has")
	case c.Isolated:
		return not("MPS is not reached from the isolated tier, nor from an image")
	case c.MPS == nil:
		return not("%s", c.NoMPS)
	case c.OtherUser:
		return not("the container runs as another user than Muster, and MPS serves one user at a time")
	case len(c.Own) > 0:
		return not("the container sets %s itself", strings.Join(c.Own, ", "))
	case beforeVolta(c.Device.Model):
		return not("MPS limits no memory on a GPU of this age (%s)", c.Device.Model)
	case !limitsMemory(c.Driver):
		return not("MPS limits memory from driver %d on, and this one is %s", mpsDriver, orUnknown(c.Driver))
	case c.Devices > 1:
		return not("MPS counts GPUs by number, which is certain only on a machine with one; the limit is set for number 0")
	}
	return Enforcement{Enforced: true, Why: "by MPS, for each process"}
}

func orUnknown(s string) string {
	if s == "" {
		return "not known"
	}
	return s
}
