//go:build embedded

package rehearsal

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/controlplane/planetest"
)

// Server is an API server with Muster's kinds and nobody who acts on them.
type Server struct {
	// Client talks to it, as an administrator.
	Client client.WithWatch
	// Config is how to reach it, as the same.
	Config *rest.Config
	// Kubeconfig is a file that says the same.
	Kubeconfig string
	// Verbs are those that the whole program alone links, where they are asked
	// for.
	Verbs []cli.Verb
}

// Start starts one, which ends with the test.
func Start(t *testing.T) *Server {
	t.Helper()
	plane := planetest.Start(t)
	scheme, err := connection.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Kubeconfig: plane.Kubeconfig(), Config: plane.RESTConfig()}
	if s.Client, err = client.NewWithWatch(plane.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return s
}

// Step is one command line, and what is expected of it.
type Step struct {
	// Args are the words after muster, parted by spaces.
	Args string
	// Code is the exit code.
	Code int
	// Says is part of what it writes, to standard output or error.
	Says string
}

// Run runs command lines one after the other.
func (s *Server) Run(t *testing.T, steps []Step) {
	t.Helper()
	for _, step := range steps {
		args := strings.Fields(step.Args)
		at := slices.Index(args, "--") // what comes after is the job's
		if at < 0 {
			at = len(args)
		}
		args = slices.Insert(args, at, "--kubeconfig", s.Kubeconfig)
		var out, errs bytes.Buffer
		code := cli.Execute(t.Context(), args, terminal.Streams{In: &bytes.Buffer{}, Out: &out, Err: &errs, NoColor: true}, s.Verbs...)
		if said := out.String() + errs.String(); int(code) != step.Code || !strings.Contains(said, step.Says) {
			t.Errorf("muster %s: code %d, want %d and %q:\n%s", step.Args, code, step.Code, step.Says, said)
		}
	}
}
