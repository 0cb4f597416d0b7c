package image

import "errors"

// Reason is a kubelet's word for why a container waits.
type Reason string

// The reasons.
const (
	// PullFailed: the registry, or the way there, refuses. It is worth trying
	// again.
	PullFailed Reason = "ErrImagePull"
	// NeverPulled: it is not here, and is not to be pulled.
	NeverPulled Reason = "ErrImageNeverPull"
	// InvalidName: it is no name of an image.
	InvalidName Reason = "InvalidImageName"
	// NotUsable: it is here, and cannot be read or unpacked.
	NotUsable Reason = "ImageInspectError"
)

// Fault is what keeps an image from being used.
type Fault struct {
	Reason Reason
	Err    error
}

// Error is the fault in words.
func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap is the cause.
func (f *Fault) Unwrap() error { return f.Err }

// ReasonOf is the reason of a fault, and PullFailed of any other error.
func ReasonOf(err error) Reason {
	var f *Fault
	if errors.As(err, &f) {
		return f.Reason
	}
	return PullFailed
}
