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
}

// source is where a kubeconfig came from.
type source struct {
	files []string
	// flag or variable that named it; empty for the home's own.
	named string
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
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace (default: the kubeconfig's, else \"default\")")
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
		f.home = home
	}
	origin, err := f.find()
	return origin.files, err
}

// Elsewhere reports whether the user named a kubeconfig, by flag or variable,
// so that it is not the Muster of the data folder that is meant.
func (f *Factory) Elsewhere() bool {
	origin, err := f.find()
	return err == nil && origin.named != ""
}

// Embedded reports whether it is an embedded Muster that is meant: that of the
// data folder, or one whose kubeconfig, where it lies in its own data folder, the
// user named.
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
	if origin.named == "" {
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
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: origin.files}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.context}
	overrides.Context.Namespace = f.namespace
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides), origin, nil
}

func (f *Factory) find() (source, error) {
	if f.kubeconfig != "" {
		if _, err := os.Stat(f.kubeconfig); err != nil {
			return source{}, fmt.Errorf("reading the kubeconfig that --kubeconfig names: %w", err)
		}
		return source{files: []string{f.kubeconfig}, named: "--kubeconfig"}, nil
	}
	home, err := f.Home()
	if err != nil {
		return source{}, err
	}
	own := filepath.Join(home, "kubeconfig")
	if _, err := os.Stat(own); err == nil {
		return source{files: []string{own}}, nil
	} else if !os.IsNotExist(err) {
		return source{}, fmt.Errorf("reading the kubeconfig of the data folder: %w", err)
	}
	// A home that the user named is meant; another cluster is not.
	if f.home == "" {
		for _, file := range filepath.SplitList(f.Getenv(EnvKubeconfig)) {
			if _, err := os.Stat(file); err == nil {
				return source{files: filepath.SplitList(f.Getenv(EnvKubeconfig)), named: "$" + EnvKubeconfig}, nil
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
