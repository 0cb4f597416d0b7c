package contract

import (
	"fmt"
	"time"
)

// Spec says what one container runs and how. It is stored as spec.json in the
// container's folder, readable by its owner alone since Env may hold secrets.
type Spec struct {
	// ID is unique among all containers of a machine:
	// "<pod uid>/<container>/<restart>".
	ID string `json:"id"`
	// PodUID is the first part of the ID.
	PodUID string `json:"podUID"`
	// Container is the second part of the ID.
	Container string `json:"container"`
	// Restart is the third part of the ID, from 0.
	Restart int `json:"restart"`

	// Argv is the command and its arguments. A command without a slash is
	// looked up in the PATH of Env; one with a slash may be relative to Dir.
	Argv []string `json:"argv"`
	// Env is the whole environment ("NAME=value"), to which the shim adds
	// IDVariable.
	Env []string `json:"env,omitempty"`
	// Dir is the working directory as the command sees it. Empty: "/".
	Dir string `json:"dir,omitempty"`
	// UID is the user to run as. Nil: the user who runs muster.
	UID *uint32 `json:"uid,omitempty"`
	// GID is the group to run as. Nil: the group who runs muster.
	GID *uint32 `json:"gid,omitempty"`
	// Groups are the supplementary groups, honoured where UID or GID is set.
	Groups []uint32 `json:"groups,omitempty"`
	// Account is the user to run as in a tree of its own (Isolation.Root):
	// "user" or "user:group", names or numbers, as that tree's /etc/passwd and
	// /etc/group know them. Its groups and its home folder ($HOME, where Env has
	// none) come from there, too. Set, UID, GID and Groups are not looked at.
	Account string `json:"account,omitempty"`
	// Home is the home folder of an Account that /etc/passwd does not know. Empty: "/".
	Home string `json:"home,omitempty"`

	// Owner is the rest of the user's session on a machine that several users share. Nil: the Muster
	// has one user, and the container has what the shim has.
	Owner *Owner `json:"owner,omitempty"`

	// NoNewPrivileges keeps the tree from gaining rights: a set-user-ID program
	// runs with the rights of its caller.
	NoNewPrivileges bool `json:"noNewPrivileges,omitempty"`
	// Tethered ends the whole tree when the muster that started the container
	// closes its connection to the shim, or ends. False: it lives on.
	Tethered bool `json:"tethered,omitempty"`

	// TTY gives the command a terminal of its own: one stream, stdout.
	TTY bool `json:"tty,omitempty"`
	// Stdin keeps the standard input open for Attach. False: /dev/null.
	Stdin bool `json:"stdin,omitempty"`
	// StdinOnce closes the standard input when the first attached input ends.
	StdinOnce bool `json:"stdinOnce,omitempty"`

	// Isolation gives the container namespaces of its own. Nil: the plain tier.
	Isolation *Isolation `json:"isolation,omitempty"`
	// Limits bounds what the container may use. Nil: no limits.
	Limits *Limits `json:"limits,omitempty"`
	// Log bounds the disk that the container's output takes.
	Log LogLimits `json:"log"`
	// Locks are files that the shim locks exclusively before the command
	// starts, and until the whole tree has ended. They are created where
	// missing, and while they are held they name their holder.
	Locks []string `json:"locks,omitempty"`
	// SharedLocks are files of the same kind that containers of one LockGroup
	// hold together: neither who locks one exclusively nor another group gets
	// it meanwhile.
	SharedLocks []string `json:"sharedLocks,omitempty"`
	// LockGroup names the group, in letters, digits and dashes.
	LockGroup string `json:"lockGroup,omitempty"`
	// Labels are the caller's own, kept for adoption.
	Labels map[string]string `json:"labels,omitempty"`
	// TerminationMessagePath is a file, as the command sees it, whose last
	// MessageLimit bytes become Exit.Message. Empty: none.
	TerminationMessagePath string `json:"terminationMessagePath,omitempty"`
	// TerminationMessageRoot is a folder that TerminationMessagePath lies below, in the plain tier:
	// programs may put links below it, which are not followed. Empty: "/".
	TerminationMessageRoot string `json:"terminationMessageRoot,omitempty"`
	// TerminationMessageAsUser reads the file below TerminationMessageRoot with the rights of the
	// container's user, who controls both.
	TerminationMessageAsUser bool `json:"terminationMessageAsUser,omitempty"`
	// TerminationMessageFile is the file of the machine that is mounted at TerminationMessagePath.
	// It is opened before the command starts, since programs may put another in the mount's place.
	// Empty: none.
	TerminationMessageFile string `json:"terminationMessageFile,omitempty"`
}

// Owner is what a session of a user of the machine has beside its numbers. A process of any user but
// root has no capabilities then, cannot gain any right, raises no priority and leaves no core files.
type Owner struct {
	// Umask is the mask of the modes of new files.
	Umask uint32 `json:"umask"`
	// Processes is the highest number of processes and threads of all of the user's containers, or,
	// where there is no control group for that, of the user. 0: no limit. It does not hold for root.
	Processes int64 `json:"processes,omitempty"`
	// SpareHome takes the place of the HOME in Env that is no folder of this machine. Empty: none does.
	SpareHome string `json:"spareHome,omitempty"`
}

// Isolation gives a container mount, process, host name and IPC namespaces of
// its own. Paths of the host stay what they are, and nothing is created there.
type Isolation struct {
	// Root is mounted, one after the other, as the tree that the container sees
	// in the place of the host's. What it writes there is the container's alone,
	// and goes with whoever made these mounts possible. Empty: the host's tree.
	Root []RootMount `json:"root,omitempty"`
	// ReadOnlyRoot refuses writes to the tree, the container's own or the host's,
	// but for /dev and the mounts in it.
	ReadOnlyRoot bool `json:"readOnlyRoot,omitempty"`
	// Confine is for a container of another user than root: set-user-ID programs and device files in
	// Mounts have no effect, but where a path of the host is mounted at its own place, and unless it
	// turns out to run as user 0 it gains no rights (NoNewPrivileges).
	Confine bool `json:"confine,omitempty"`
	// Users gives a container with a Root a user namespace: its root is no root of the machine. Nil: none.
	Users *Users `json:"users,omitempty"`
	// NetNS is the path of the network namespace to join. Empty: the host's.
	NetNS string `json:"netNS,omitempty"`
	// Hostname is the host name seen inside. Empty: the host's.
	Hostname string `json:"hostname,omitempty"`
	// Mounts are laid over the tree, outer targets before inner ones.
	Mounts []Mount `json:"mounts,omitempty"`
	// SharedMemoryBytes bounds /dev/shm. 0: the kernel's default, half of the memory.
	SharedMemoryBytes int64 `json:"sharedMemoryBytes,omitempty"`
	// HideGPUs leaves out the device nodes of all GPUs (/dev/nvidia0, ...) that
	// GPUDeviceNodes does not name.
	HideGPUs bool `json:"hideGPUs,omitempty"`
	// GPUDeviceNodes are the device nodes of the container's own GPUs.
	GPUDeviceNodes []string `json:"gpuDeviceNodes,omitempty"`
}

// SubordinateIDs is the count of numbers of users, and of groups, that an image has in a user namespace.
const SubordinateIDs = 1 << 16

// Users are the numbers in the user namespace of a container that runs an image for a user of the
// machine. The user and the group keep their own numbers inside; the others from 0 to 65535 are numbers
// that nobody else on the machine has. UID, GID and Account of the Spec are numbers inside. Files that
// the container's main user makes in volumes are the user's, whatever its number inside.
type Users struct {
	// UID and GID are the user's on the machine; not root's.
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	// Base is the first of SubordinateIDs numbers, of users and of groups alike, that are this user's.
	Base uint32 `json:"base"`
}

// Check returns an error for numbers that overlap or are the machine's.
func (u Users) Check() error {
	const none = 1<<32 - 1
	in := func(n uint32) bool { return n >= u.Base && n-u.Base < SubordinateIDs }
	switch {
	case u.UID == 0 || u.GID == 0 || u.UID == none || u.GID == none:
		return fmt.Errorf("the user %d with the group %d cannot have a user namespace: root and -1 are not allowed", u.UID, u.GID)
	case u.Base < SubordinateIDs || u.Base > none-SubordinateIDs:
		return fmt.Errorf("subordinate numbers from %d on: allowed are %d to %d", u.Base, SubordinateIDs, uint32(none-SubordinateIDs))
	case in(u.UID) || in(u.GID):
		return fmt.Errorf("subordinate numbers from %d on contain the user %d or the group %d", u.Base, u.UID, u.GID)
	}
	return nil
}

// Mount is one folder or file laid over the host's tree.
type Mount struct {
	// Source is a path of the host. Ignored where Tmpfs is set.
	Source string `json:"source,omitempty"`
	// SubPath is the mounted file or folder below Source, which programs may change meanwhile. No
	// link in it is followed: the caller has followed them all. Empty: Source itself.
	SubPath string `json:"subPath,omitempty"`
	// AsUser opens Source and SubPath with the rights of the container's user (UID, GID and Groups), by a
	// process that becomes the user: the user controls the path, and a file server may refuse root. Set-user-ID
	// programs and device files have no effect in the mount.
	AsUser bool `json:"asUser,omitempty"`
	// Target is the absolute path inside. It is created, for this container
	// alone, where it does not exist.
	Target string `json:"target"`
	// ReadOnly refuses writes, below Source's own mounts too.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Tmpfs mounts an empty file system in memory.
	Tmpfs bool `json:"tmpfs,omitempty"`
	// SizeBytes bounds a tmpfs. 0: the kernel's default, half of the memory.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
}

// RootMount is a mount as container runtimes describe it.
type RootMount struct {
	// Type is the file system's: overlay, bind, ...
	Type string `json:"type"`
	// Source is what is mounted, a path of the host or a word.
	Source string `json:"source,omitempty"`
	// Options are flags (ro, rbind) and what else the file system is told.
	Options []string `json:"options,omitempty"`
}

// Limits bounds what a container may use, through control groups.
type Limits struct {
	// MemoryBytes is the most memory, without swap. 0: no limit.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// CPUMillis is the most CPU time, in thousandths of a CPU. 0: no limit.
	CPUMillis int64 `json:"cpuMillis,omitempty"`
	// CPURequestMillis is the share when CPUs are scarce, in thousandths of a
	// CPU. 0: the least share.
	CPURequestMillis int64 `json:"cpuRequestMillis,omitempty"`
	// PIDs is the most processes and threads. 0: no limit.
	PIDs int64 `json:"pids,omitempty"`
	// Parent is the control group, relative to the root of each hierarchy,
	// under which the container's own is made. Empty: "muster".
	Parent string `json:"parent,omitempty"`
}

// LogLimits bounds the disk that a container's output takes: about MaxBytes
// times MaxFiles. The oldest output goes first.
type LogLimits struct {
	// MaxBytes is the size at which a new file begins. 0: DefaultLogBytes.
	MaxBytes int64 `json:"maxBytes,omitempty"`
	// MaxFiles is the number of files kept. 0: DefaultLogFiles.
	MaxFiles int `json:"maxFiles,omitempty"`
}

// Bounds and defaults.
const (
	// DefaultLogBytes is the size of one log file.
	DefaultLogBytes = 10 << 20
	// DefaultLogFiles is the number of log files of a container.
	DefaultLogFiles = 5
	// MessageLimit is the most bytes of a termination message.
	MessageLimit = 4096
	// IDVariable is the environment variable that every process of a
	// container carries: the container's ID.
	IDVariable = "MUSTER_CONTAINER_ID"
	// TemporaryVariable is the environment variable with the temporary folders that are a
	// container's own, and empty at its start, with colons between them.
	TemporaryVariable = "MUSTER_TEMPORARY_FOLDERS"
)

// Exit is how a container ended. It is stored as exit.json once no process of
// the tree is left.
type Exit struct {
	// Code is the exit code: 128 + Signal where a signal ended the main
	// process, 126, 127 or 128 where it could not start.
	Code int `json:"code"`
	// Signal is the signal that ended the main process. 0: it exited.
	Signal int `json:"signal,omitempty"`
	// OOMKilled says that the kernel ended a process of the tree because the
	// memory limit was reached, and that the main process did not succeed.
	OOMKilled bool `json:"oomKilled,omitempty"`
	// StartedAt is when the command was executed. Zero: never.
	StartedAt time.Time `json:"startedAt"`
	// CutShort reports that the container was asked to end, and that processes of its tree had to be
	// killed when its time was over.
	CutShort bool `json:"cutShort,omitempty"`
	// FinishedAt is when the main process ended. Of a container that was asked
	// to end it is when the last process of the tree had ended.
	FinishedAt time.Time `json:"finishedAt"`
	// CPUSeconds is the CPU time of the whole tree.
	CPUSeconds float64 `json:"cpuSeconds"`
	// MaxRSSBytes is the resident memory of the tree's largest process at its
	// largest.
	MaxRSSBytes int64 `json:"maxRSSBytes"`
	// Message is what the command left at TerminationMessagePath.
	Message string `json:"message,omitempty"`
	// Reason is empty unless Err is set.
	Reason Reason `json:"reason,omitempty"`
	// Err says why the command could not start, or how its end was lost.
	Err string `json:"err,omitempty"`
}

// Reason says in one word why a container has no exit code of its own.
type Reason string

// The reasons.
const (
	// ReasonNotFound: the command does not exist.
	ReasonNotFound Reason = "NotFound"
	// ReasonNotExecutable: the command exists and cannot be executed.
	ReasonNotExecutable Reason = "NotExecutable"
	// ReasonDirectory: the working directory is missing or no directory.
	ReasonDirectory Reason = "Directory"
	// ReasonUser: the user or group cannot be taken on.
	ReasonUser Reason = "User"
	// ReasonLockHeld: another holds one of the Locks.
	ReasonLockHeld Reason = "LockHeld"
	// ReasonIsolation: namespaces or mounts could not be made.
	ReasonIsolation Reason = "Isolation"
	// ReasonLimits: the limits could not be set.
	ReasonLimits Reason = "Limits"
	// ReasonShimLost: the shim was killed, or the machine restarted.
	ReasonShimLost Reason = "ShimLost"
	// ReasonNeverStarted: muster ended before the command was started.
	ReasonNeverStarted Reason = "NeverStarted"
	// ReasonInternal: anything else.
	ReasonInternal Reason = "Internal"
)
