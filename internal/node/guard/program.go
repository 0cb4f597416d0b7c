package guard

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
)

// The kernel's bpf_cgroup_dev_ctx: three numbers of four bytes each. The access is in the upper half
// of the first, the type of the device in the lower half.
const (
	accessOffset = 0
	majorOffset  = 4
	minorOffset  = 8

	typeMask      = 0xffff
	typeCharacter = 2
	accessShift   = 16
	readOrWrite   = 2 | 4
)

// programName is what `bpftool cgroup tree` shows.
const programName = "muster_guard"

// load gives the kernel a program that refuses to open devices in the ranges.
func load(ranges []Range) (*ebpf.Program, error) {
	// Before Linux 5.11 programs count as locked memory.
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raising the limit of locked memory: %w", err)
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: programName, Type: ebpf.CGroupDevice, License: "Apache-2.0", Instructions: instructions(ranges),
	})
	if err != nil {
		return nil, fmt.Errorf("loading the device filter: %w", err)
	}
	return program, nil
}

// instructions are those of the program: 1 allows, 0 refuses.
func instructions(ranges []Range) asm.Instructions {
	const allow, refuse = "allow", "refuse"
	list := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, accessOffset, asm.Word),
		asm.LoadMem(asm.R4, asm.R1, majorOffset, asm.Word),
		asm.LoadMem(asm.R5, asm.R1, minorOffset, asm.Word),
		// 1. Only character devices.
		asm.Mov.Reg(asm.R3, asm.R2),
		asm.And.Imm(asm.R3, typeMask),
		asm.JNE.Imm(asm.R3, typeCharacter, allow),
		// 2. Only to read or write: a device file may be made, and does not open.
		asm.RSh.Imm(asm.R2, accessShift),
		asm.And.Imm(asm.R2, readOrWrite),
		asm.JEq.Imm(asm.R2, 0, allow),
	}
	// 3. One range after the other.
	for i, r := range ranges {
		next := fmt.Sprintf("range_%d", i+1)
		if i == len(ranges)-1 {
			next = allow
		}
		block := asm.Instructions{
			asm.LoadImm(asm.R0, int64(r.Major), asm.DWord),
			asm.JNE.Reg(asm.R4, asm.R0, next),
			asm.LoadImm(asm.R0, int64(r.First), asm.DWord),
			asm.JLT.Reg(asm.R5, asm.R0, next),
			asm.LoadImm(asm.R0, int64(r.Last), asm.DWord),
			asm.JLE.Reg(asm.R5, asm.R0, refuse),
		}
		if i > 0 {
			block[0] = block[0].WithSymbol(fmt.Sprintf("range_%d", i))
		}
		list = append(list, block...)
	}
	list = append(list, asm.Mov.Imm(asm.R0, 1).WithSymbol(allow), asm.Return())
	if len(ranges) == 0 {
		return list // the kernel accepts no instruction that is never reached
	}
	return append(list, asm.Mov.Imm(asm.R0, 0).WithSymbol(refuse), asm.Return())
}
