package connection

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// noMuster says that there is no Muster, where was looked, and what to do.
func noMuster(own, kubeconfig string) error {
	looked := own
	if kubeconfig != "" {
		looked += " and $" + EnvKubeconfig + " = " + kubeconfig
	}
	return exit.NotFound("no Muster is running here (looked in %s): %s", looked, startOne)
}

// Explain turns an error of a client into one that says what to do: nobody
// answers, or the credentials are refused. Other errors are returned as they
// are.
func (f *Factory) Explain(err error) error {
	if err == nil {
		return nil
	}
	f.mu.Lock()
	config, origin := f.config, f.source
	f.mu.Unlock()
	if config == nil {
		return err
	}
	if origin.kind == Box {
		if said := explainBox(err, origin.socket); said != nil {
			return said
		}
	} else if network := unanswered(err); network != nil {
		if origin.named == "" {
			return exit.NotFound("no Muster is running here (looked in %s; nobody answers at %s): %s",
				filepath.Dir(origin.path()), config.Host, startOne)
		}
		return exit.NotFound("nobody answers at %s (from %s %s): %w", config.Host, origin.named, strings.Join(origin.files, ", "), network)
	}
	if denied := withoutRight(err, origin.kind); denied != nil {
		return denied
	}
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("the server at %s does not accept the credentials of %s: is it the kubeconfig of another Muster, or of an older data folder?", config.Host, origin.path())
	}
	return err
}

// lacking matches the API server's message about a missing right.
var lacking = regexp.MustCompile(`User "([^"]*)" cannot (\w+) resource "([^"]*)" in API group "[^"]*"(?: in the namespace "([^"]*)"| at the cluster scope)?`)

// denied is the error of a missing right. Its message names the users with the right.
type denied struct {
	words string
	err   error
}

// Error implements error.
func (d *denied) Error() string { return d.words }

// Unwrap returns the server's error.
func (d *denied) Unwrap() error { return d.err }

// withoutRight rewords the server's error about a missing right. It returns nil for any other
// error, and for one that was reworded before.
func withoutRight(err error, kind Kind) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsForbidden(status) || !strings.Contains(err.Error(), status.ErrStatus.Message) {
		return nil
	}
	found := lacking.FindStringSubmatch(status.ErrStatus.Message)
	if found == nil {
		return nil
	}
	whole := "cluster"
	if kind == Box {
		whole = "machine"
	}
	where := "of the whole " + whole
	if found[4] != "" {
		where = "in namespace " + found[4]
	}
	words := fmt.Sprintf("%s may not %s %s %s; ask an administrator of the %s to do this, or to give you the right", found[1], found[2], found[3], where, whole)
	return &denied{strings.Replace(err.Error(), status.ErrStatus.Message, words, 1), err}
}

// unanswered returns the attempt to connect that err comes from, nil where it comes
// from something else.
func unanswered(err error) *net.OpError {
	return search(err, func(network *net.OpError) bool { return network.Op == "dial" })
}

// find returns the first error of a type in err, nil without one.
func find[E error](err error) *E {
	var found *E
	search(err, func(e E) bool {
		found = &e
		return true
	})
	return found
}

// search returns the first error of a type that a test accepts. It looks into aggregates,
// too: that is what a mapper of several mappers answers, and errors.As sees nothing of what
// they hold.
func search[E error](err error, accept func(E) bool) (none E) {
	if found, ok := errors.AsType[E](err); ok && accept(found) {
		return found
	}
	aggregate, ok := errors.AsType[utilerrors.Aggregate](err)
	if !ok {
		return none
	}
	for _, one := range aggregate.Errors() {
		matched := false
		found := search(one, func(e E) bool {
			matched = accept(e)
			return matched
		})
		if matched {
			return found
		}
	}
	return none
}

func emptyConfig() *clientcmdapi.Config { return clientcmdapi.NewConfig() }

// warnings prints the server's warnings on standard error.
type warnings struct{ streams terminal.Streams }

// HandleWarningHeader implements rest.WarningHandler.
func (w warnings) HandleWarningHeader(code int, _, message string) {
	if code != 299 || message == "" {
		return
	}
	_, _ = fmt.Fprintln(w.streams.Err, w.streams.ErrStyle().Paint(terminal.Yellow, "warning:")+" "+message)
}
