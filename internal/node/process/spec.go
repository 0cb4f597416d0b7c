package process

import (
	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/shim/enclosure"
)

// What is agreed with the shim, under the names that callers use.
type (
	// Spec says what one container runs and how.
	Spec = contract.Spec
	// Owner is a user's session on a machine that several users share.
	Owner = contract.Owner
	// Isolation gives a container namespaces of its own.
	Isolation = contract.Isolation
	// Mount is one folder or file laid over the host's tree.
	Mount = contract.Mount
	// RootMount is a mount that makes a container's own tree.
	RootMount = contract.RootMount
	// Users are the numbers in the user namespace of an image.
	Users = contract.Users
	// Limits bounds what a container may use.
	Limits = contract.Limits
	// LogLimits bounds the disk that a container's output takes.
	LogLimits = contract.LogLimits
	// Exit is how a container ended.
	Exit = contract.Exit
	// Reason says in one word why a container has no exit code of its own.
	Reason = contract.Reason
)

// SubordinateIDs is the count of numbers that an image has in a user namespace.
const SubordinateIDs = contract.SubordinateIDs

// MappedMounts returns an error if images whose layers lie on the file system of a folder cannot run
// with [Users] on this machine.
func MappedMounts(folder string) error { return enclosure.MappedMounts(folder) }

// The reasons for which a container has no exit code of its own.
const (
	ReasonNotFound      = contract.ReasonNotFound
	ReasonNotExecutable = contract.ReasonNotExecutable
	ReasonDirectory     = contract.ReasonDirectory
	ReasonUser          = contract.ReasonUser
	ReasonLockHeld      = contract.ReasonLockHeld
	ReasonIsolation     = contract.ReasonIsolation
	ReasonLimits        = contract.ReasonLimits
	ReasonShimLost      = contract.ReasonShimLost
	ReasonNeverStarted  = contract.ReasonNeverStarted
	ReasonInternal      = contract.ReasonInternal
)

// StartError says why a container could not start. Start returns it for
// everything that the caller's spec or this machine's state is the cause of.
type StartError struct {
	// Reason is the cause in one word.
	Reason Reason
	// Code is the exit code that shells give the case: 126, 127 or 128.
	Code int
	// Message is the cause in words, for people.
	Message string
}

// Error is the cause in words.
func (e *StartError) Error() string { return e.Message }
