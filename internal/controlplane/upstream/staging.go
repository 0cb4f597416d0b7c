//go:build staging

package upstream

// k8s.io/kubernetes requires its staging modules at v0.0.0, which was never published. This
// program imports all of them but these two. The imports give them a version, for commands that
// read all modules, such as `go list -m all`. Nothing is built with this tag. Directives replace
// and exclude would forbid `go install` of a version of Muster.
import (
	_ "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	_ "k8s.io/sample-apiserver/pkg/apis/wardle"
)
