// Package remote owns running a command inside a member that runs already.
//
// It streams through the API server, over a WebSocket, or SPDY where the
// server or something between is too old for one. It must not know why a
// command is run.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

// Command is a command to run in a container.
type Command struct {
	// Namespace, Pod and Container say where.
	Namespace, Pod, Container string
	// Argv is the program and its arguments.
	Argv []string
	// Stdin, Stdout and Stderr are its streams. nil: none. With TTY, Stderr
	// is not used.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TTY gives it a terminal, of the sizes that Sizes brings.
	TTY   bool
	Sizes remotecommand.TerminalSizeQueue
}

// Run runs the command and returns its exit code. The error is of the way
// there, not of the command.
func Run(ctx context.Context, config *rest.Config, set kubernetes.Interface, c Command) (code int, err error) {
	url := set.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.Namespace).Name(c.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: c.Container, Command: c.Argv, TTY: c.TTY,
			Stdin: c.Stdin != nil, Stdout: c.Stdout != nil, Stderr: c.Stderr != nil && !c.TTY,
		}, scheme.ParameterCodec).URL()
	socket, err := remotecommand.NewWebSocketExecutor(config, "GET", url.String())
	if err != nil {
		return 0, fmt.Errorf("preparing to reach %s: %w", c.Pod, err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", url)
	if err != nil {
		return 0, fmt.Errorf("preparing to reach %s: %w", c.Pod, err)
	}
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return 0, fmt.Errorf("preparing to reach %s: %w", c.Pod, err)
	}
	options := remotecommand.StreamOptions{Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, Tty: c.TTY, TerminalSizeQueue: c.Sizes}
	if c.TTY {
		options.Stderr = nil
	}
	err = executor.StreamWithContext(ctx, options)
	if ended, ok := errors.AsType[clientexec.CodeExitError](err); ok {
		return ended.Code, nil
	}
	if err != nil {
		return 0, fmt.Errorf("running %s in %s: %w", c.Argv[0], c.Pod, err)
	}
	return 0, nil
}
