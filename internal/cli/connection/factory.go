package connection

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-dev/muster/internal/cli/terminal"
)

// Environment variables that are read.
const (
	// EnvHome names the data folder.
	EnvHome = "MUSTER_HOME"
	// EnvKubeconfig names a kubeconfig, or several, as kubectl reads it.
	EnvKubeconfig = "KUBECONFIG"
)

// FieldOwner is the field manager of everything that the CLI writes.
const FieldOwner = "muster"

// Factory finds the Muster and makes clients for it.
type Factory struct {
	// Streams are the command's standard streams.
	Streams terminal.Streams
	// Getenv reads an environment variable. Default: os.Getenv.
	Getenv func(string) string
	// Version is this program's version, for the user agent.
	Version string

	home       string
	kubeconfig string
	context    string
	namespace  string

	mu     sync.Mutex
	config *rest.Config
	source source
	made   clients

	finding sync.Mutex
	// chosen is the source, once a socket made it a choice: a command keeps to it, also if
	// the Muster of the home starts or stops meanwhile.
	chosen *source
}

// Kind is what a command talks to.
type Kind int

const (
	// Home is the Muster of a data folder, which has one user.
	Home Kind = iota
	// Box is the Muster of all users of this machine, behind its socket.
	Box
	// Cluster is a Kubernetes that a kubeconfig names.
	Cluster
)

// source is how the server is found.
type source struct {
	kind Kind
	// files are those of the kubeconfig; none for a Box.
	files []string
	// named is the flag or variable that named them; empty for the home's own.
	named string
	// socket is that of a Box.
	socket string
}

// New returns a factory for these streams and this program version.
func New(streams terminal.Streams, version string) *Factory {
	return &Factory{Streams: streams, Getenv: os.Getenv, Version: version}
}

// AddFlags adds the flags by which a user says which Muster is meant.
func (f *Factory) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.home, "home", "", "Muster's data folder (default $"+EnvHome+", else ~/.muster)")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the Muster to talk to (default: the one in the data folder, else $"+EnvKubeconfig+")")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig (default: its current one)")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace (default: the kubeconfig's, else \"default\"; u-<uid> where the users of a machine share a Muster)")
}

// Named reports whether the user said on the command line which Muster or which
// cluster is meant.
func (f *Factory) Named() bool { return f.kubeconfig != "" || f.context != "" || f.home != "" }

// Home returns the data folder as an absolute path. It need not exist.
func (f *Factory) Home() (string, error) {
	home := f.home
	if home == "" {
		home = f.Getenv(EnvHome)
	}
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding your home folder (give --home): %w", err)
		}
		home = filepath.Join(user, ".muster")
	}
	absolute, err := filepath.Abs(home)
	if err != nil {
		return "", fmt.Errorf("finding the data folder %s: %w", home, err)
	}
	return absolute, nil
}

// SystemHome returns the data folder of the Muster of all users of the machine.
func (f *Factory) SystemHome() (string, error) {
	if f.home == "" && f.Getenv(EnvHome) == "" {
		return "/var/lib/muster", nil
	}
	return f.Home()
}

// Namespace returns the namespace that commands act in.
func (f *Factory) Namespace() (string, error) {
	if f.namespace != "" {
		return f.namespace, nil
	}
	loader, _, err := f.loader()
	if err != nil {
		return "", err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return namespace, nil
}

// NamespaceOr returns the namespace that the user asked for, or fallback where
// no Muster is there to ask: for commands that only print.
func (f *Factory) NamespaceOr(fallback string) string {
	if namespace, err := f.Namespace(); err == nil {
		return namespace
	}
	return fallback
}

// Kubeconfigs returns the files of the kubeconfig that commands use, for a program that reads them
// itself. A home that is not empty replaces --home. The error is of exit code 3 where no Muster is
// running.
func (f *Factory) Kubeconfigs(home string) ([]string, error) {
	if home != "" {
		f.finding.Lock()
		f.home, f.chosen = home, nil
		f.finding.Unlock()
	}
	origin, err := f.find()
	return origin.files, err
}

// Kind returns what commands talk to. The error is of exit code 3 where nothing is there.
func (f *Factory) Kind() (Kind, error) {
	origin, err := f.find()
	if err != nil || origin.kind == Box {
		return origin.kind, err
	}
	_, embedded, err := f.EmbeddedHome()
	if err != nil || embedded {
		return Home, err
	}
	return Cluster, nil
}

// Elsewhere reports whether the user named a kubeconfig, by flag or variable,
// so that it is not the Muster of the data folder that is meant.
func (f *Factory) Elsewhere() bool {
	origin, err := f.find()
	return err == nil && origin.named != ""
}

// Embedded reports whether it is an embedded Muster that is meant: that of the
// data folder, or one whose kubeconfig, where it lies in its own data folder, the
// user named. The Muster of all users of the machine is not meant by the word.
func (f *Factory) Embedded() bool {
	_, embedded, err := f.EmbeddedHome()
	return err == nil && embedded
}

// EmbeddedHome returns the data folder of the embedded Muster that is meant, as
// [Factory.Embedded] finds it; false where it is a cluster that is meant. The
// error is of exit code 3 where there is neither.
func (f *Factory) EmbeddedHome() (home string, embedded bool, err error) {
	origin, err := f.find()
	if err != nil {
		return "", false, err
	}
	switch {
	case origin.kind == Box:
		return "", false, nil
	case origin.named == "":
		home, err = f.Home()
		return home, err == nil, err
	}
	if home, err = filepath.Abs(filepath.Dir(origin.path())); err != nil {
		return "", false, fmt.Errorf("finding the folder of the kubeconfig %s: %w", origin.path(), err)
	}
	_, err = os.Stat(filepath.Join(home, "control-plane.json"))
	return home, err == nil, nil
}

// DataFolder returns the data folder of the Muster that is meant, which is where that
// looks for code and keeps logs, also where a kubeconfig names an embedded one. Where a
// cluster is meant, or nothing is there, it is [Factory.Home].
func (f *Factory) DataFolder() (string, error) {
	if home, embedded, err := f.EmbeddedHome(); err == nil && embedded {
		return home, nil
	}
	return f.Home()
}

// RESTConfig returns how to reach the server, without a request rate limit.
// The error is of exit code 3 where no Muster is running.
func (f *Factory) RESTConfig() (*rest.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.restConfig()
}

func (f *Factory) restConfig() (*rest.Config, error) {
	if f.config != nil {
		return f.config, nil
	}
	loader, origin, err := f.loader()
	if err != nil {
		return nil, err
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", origin.path(), err)
	}
	if origin.kind == Box {
		bySocket(config, origin.socket)
	}
	config.QPS = -1
	config.UserAgent = "muster/" + f.Version
	config.WarningHandler = warnings{f.Streams}
	config.WarningHandlerWithContext = nil
	f.config, f.source = config, origin
	return config, nil
}

// loader finds the kubeconfig.
func (f *Factory) loader() (clientcmd.ClientConfig, source, error) {
	origin, err := f.find()
	if err != nil {
		return nil, source{}, err
	}
	if origin.kind == Box {
		return f.boxLoader(), origin, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: origin.files}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.context}
	overrides.Context.Namespace = f.namespace
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides), origin, nil
}

// find returns the source: what flags and variables name, else the Muster of the home if it
// runs, else that of the machine, else what is left of the home's, else $KUBECONFIG.
func (f *Factory) find() (source, error) {
	if f.kubeconfig != "" {
		if _, err := os.Stat(f.kubeconfig); err != nil {
			return source{}, fmt.Errorf("reading the kubeconfig that --kubeconfig names: %w", err)
		}
		return source{kind: Cluster, files: []string{f.kubeconfig}, named: "--kubeconfig"}, nil
	}
	f.finding.Lock()
	defer f.finding.Unlock()
	if f.chosen != nil {
		return *f.chosen, nil
	}
	home, err := f.Home()
	if err != nil {
		return source{}, err
	}
	own := filepath.Join(home, "kubeconfig")
	_, missing := os.Stat(own)
	if missing != nil && !os.IsNotExist(missing) {
		return source{}, fmt.Errorf("reading the kubeconfig of the data folder: %w", missing)
	}
	// A home or a context that the user named is meant; another Muster is not.
	if f.home == "" && f.Getenv(EnvHome) == "" && f.context == "" {
		box, there, err := f.box()
		if err != nil {
			return source{}, err
		}
		if there {
			if missing == nil && runs(home) {
				box = source{files: []string{own}}
			}
			f.chosen = &box
			return box, nil
		}
	}
	if missing == nil {
		return source{files: []string{own}}, nil
	}
	return f.fromVariable(own)
}

// fromVariable returns the source that $KUBECONFIG names, unless the user named a home.
func (f *Factory) fromVariable(own string) (source, error) {
	if f.home == "" {
		for _, file := range filepath.SplitList(f.Getenv(EnvKubeconfig)) {
			if _, err := os.Stat(file); err == nil {
				return source{kind: Cluster, files: filepath.SplitList(f.Getenv(EnvKubeconfig)), named: "$" + EnvKubeconfig}, nil
			}
		}
	}
	return source{}, noMuster(own, f.Getenv(EnvKubeconfig))
}

func (s source) path() string {
	if len(s.files) == 0 {
		return ""
	}
	return s.files[0]
}
