package run

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/environment"
)

// checkPackages checks the packages of the code that the requirements name, as the snapshot has
// them, and prints how they are installed.
func (o *options) checkPackages(in Inputs) error {
	text, err := environment.Normalise(in.Requirements)
	if err != nil {
		return exit.Usage("--requirements %s: %v", o.flags.Requirements, err)
	}
	locals := environment.Locals(text)
	if len(locals) == 0 {
		return nil
	}
	if in.Snapshot == "" {
		return exit.Usage("--requirements %s: ./%s is a package of the code folder, and the job has no code; give the folder with --code FOLDER", o.flags.Requirements, locals[0])
	}
	store, err := o.codeStore()
	if err != nil {
		return err
	}
	for _, at := range locals {
		part, err := store.Part(in.Snapshot, at)
		if err == nil {
			err = environment.CheckLocal(at, part)
		}
		if err != nil {
			return exit.Usage("--requirements %s: ./%s: %v (paths are relative to the code folder)", o.flags.Requirements, at, err)
		}
	}
	if line := environment.Editable(in.Requirements); line != "" {
		_, err = fmt.Fprintf(o.factory.Streams.Err, "Note: %s is installed as it is now, not as a link to the code; the next job builds it again if it has changed.\n", line)
	}
	return err
}

// checkIndexSecret refuses a Secret that does not exist. If the user may not read it, the server
// refuses the job later. Without a server nothing is checked.
func (o *options) checkIndexSecret(ctx context.Context, server client.Reader, namespace string) error {
	name := o.flags.IndexSecret
	if name == "" || o.dryRun {
		return nil
	}
	found := &corev1.Secret{}
	err := server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found)
	if apierrors.IsNotFound(err) || err == nil && len(found.Data[v1alpha1.NetrcKey]) == 0 {
		return exit.NotFound("--index-secret %s: there is no Secret %[1]s with the key %s in namespace %s; create it, for example with: muster kubectl -n %[3]s create secret generic %[1]s --from-file=%[2]s=$HOME/.netrc",
			name, v1alpha1.NetrcKey, namespace)
	}
	return nil
}
