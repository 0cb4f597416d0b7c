package program

import "strings"

// Target is what a program is built for.
type Target struct {
	// OS and Arch are as Go names them.
	OS, Arch string
	// NVML links what reads NVIDIA's library; the program then needs glibc.
	NVML bool
}

// Glibc is the version that programs with NVML need at most.
const Glibc = "2.17"

// The targets of a release.
var (
	Linux        = Target{OS: "linux", Arch: "amd64", NVML: true}
	LinuxStatic  = Target{OS: "linux", Arch: "amd64"}
	LinuxARM     = Target{OS: "linux", Arch: "arm64"}
	Mac          = Target{OS: "darwin", Arch: "amd64"}
	MacARM       = Target{OS: "darwin", Arch: "arm64"}
	Windows      = Target{OS: "windows", Arch: "amd64"}
	EveryTarget  = []Target{Linux, LinuxStatic, LinuxARM, Mac, MacARM, Windows}
	archOfLinker = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
)

// String is the target as files are named after it: linux-amd64-static.
func (t Target) String() string {
	name := t.OS + "-" + t.Arch
	if t == LinuxStatic {
		name += "-static"
	}
	return name
}

// Executable is the program's name.
func (t Target) Executable() string {
	if t.OS == "windows" {
		return "muster.exe"
	}
	return "muster"
}

// Tags are Go's build tags. The two of the standard library keep C out of it, so
// that all that does not read NVML is compiled once for both programs of Linux.
func (t Target) Tags() string {
	tags := []string{"netgo", "osusergo"}
	if t.NVML {
		tags = append(tags, "nvml")
	}
	return strings.Join(tags, ",")
}

// Environment is what the go command is told beside the machine's own variables,
// to list what is linked.
func (t Target) Environment() []string {
	env := []string{"GOOS=" + t.OS, "GOARCH=" + t.Arch, "GOAMD64=v1", "CGO_ENABLED=0"}
	if t.NVML {
		env = append(env, "CGO_ENABLED=1")
	}
	return env
}

// environment is the same, to build.
func (t Target) environment(n nvml) []string {
	env := t.Environment()
	if t.NVML {
		env = append(env, "CC="+n.CC, "CGO_CFLAGS=-O2", "CGO_LDFLAGS=-O2 -l"+standIn)
	}
	return env
}
