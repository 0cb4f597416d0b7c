package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/muster-dev/muster/internal/people/owner"
)

// Request is the environment that somebody wants. Give requirements, or a
// Python version, or both; or the path of an environment that exists.
type Request struct {
	// Namespace is that of the job or run which asks: its store has the code. It does not count
	// for the key.
	Namespace string
	// Requirements is the text of a requirements.txt. References to other
	// files are refused, but for packages of the code.
	Requirements string
	// Python is a version of Python: "3", "3.11". Default: the machine's
	// python3.
	Python string
	// Path is the folder of an existing virtual or conda environment.
	Path string
	// Packages are the contents of the local packages that the requirements name, by their paths, as
	// [source.Part] returns them. Code is a snapshot that holds them; it does not count.
	Packages map[string]string
	Code     string
	// Secret is the Secret with the netrc of the build, as <namespace>/<name>. It counts by its name,
	// so that a job without it does not get packages that were built with it.
	Secret string
	// Image is the container image whose Python is meant, beside requirements or a
	// version. Empty: the machine's. A [Builder] makes none for images.
	Image string
}

// Phase is how far a request has come.
type Phase string

// The phases.
const (
	// Building: queued, being checked or being built; the message says which.
	Building Phase = "Building"
	// Ready: the environment may be used.
	Ready Phase = "Ready"
	// Failed: the message says why. Asking again tries again, after a while.
	Failed Phase = "Failed"
)

// State is what is known of a request.
type State struct {
	Phase Phase
	// Key is the environment's content key. Empty until the interpreter has
	// been looked at.
	Key string
	// Path is the environment's folder, with bin/python in it, once it is
	// ready.
	Path string
	// SearchPath is, once an environment for an image is ready, PATH as the image
	// has it.
	SearchPath string
	// Lock is, once an environment for an image is ready, what it was resolved to; else
	// nil.
	Lock *Lock
	// Message says in words what is going on, or what went wrong: of a build
	// that failed, the installer's own words.
	Message string
	// Done and Total count packages installed. Total is 0 until the resolver
	// has found out how many there are.
	Done, Total int
}

// Lock is what an environment for an image was resolved to.
type Lock struct {
	// Python is the version of its Python, and Platform what it was built for.
	Python, Platform string
	// Packages are what was installed beside what the image has, in order: the name,
	// a "-", the version. Nil: that is not known.
	Packages []string
	// Hash is that of all of its files.
	Hash string
}

// ID names the request in what [Builder.Changes] tells before its key is
// known.
func (r Request) ID() string {
	r.Code = ""
	// A namespace whose store lacks the code fails alone, and each user of a machine has environments of their own.
	if _, users := owner.Of(r.Namespace); !users && len(r.Packages) == 0 {
		r.Namespace = ""
	}
	// Quoted, so that no text of a field reads as another field. Maps print in the order of keys.
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", r))
	return "request-" + hex.EncodeToString(sum[:16])
}

// SecretIn is [Request.Secret] for a Secret of a namespace; without a name it is empty.
func SecretIn(namespace, name string) string {
	if name == "" {
		return ""
	}
	return namespace + "/" + name
}
