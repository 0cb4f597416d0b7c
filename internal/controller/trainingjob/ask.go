package trainingjob

import (
	_ "embed"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

//go:embed ask.sh
var askScript string

// askTree makes the kubelet ask every process of a member to end, and not the first alone: a shell
// that dies of SIGTERM takes the trainer with it that it has started. Kubernetes has hooks before
// the stop for that.
//
// Only a container that starts with a shell, or with the command of its image, needs it. A hook of
// the template stays.
func askTree(c *corev1.Container) {
	if len(c.Command) > 0 && !slices.Contains(shells, path.Base(c.Command[0])) || c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		return
	}
	lifecycle := corev1.Lifecycle{}
	if c.Lifecycle != nil {
		lifecycle = *c.Lifecycle
	}
	lifecycle.PreStop = &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", hook}}}
	c.Lifecycle = &lifecycle
}

var shells = []string{"sh", "ash", "bash", "dash", "ksh", "zsh"}

// hook is the script without its comments: each pod has a copy.
var hook = strings.Join(slices.DeleteFunc(strings.Split(strings.TrimSpace(askScript), "\n"), func(line string) bool {
	return strings.HasPrefix(line, "#")
}), "\n")
