package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/doctor"
	"github.com/muster-dev/muster/internal/cli/down"
	"github.com/muster-dev/muster/internal/cli/status"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/people/userapi"
)

// asks is the outcome of a verb that asks the server of the source, and alone that of one
// that asks none. Any other outcome is text of the refusal of a verb that asks none.
const (
	asks  = "asks"
	alone = "alone"
)

// row is what a verb does with each source.
type row struct {
	// args follow the words of the verb.
	args               string
	home, box, cluster string
}

// everywhere is the row of a verb that asks whatever source there is.
func everywhere(args string) row { return row{args, asks, asks, asks} }

// never is that of a verb that asks no server.
func never(args string) row { return row{args, alone, alone, alone} }

// ofConsole is that of a verb that asks the console of a Muster of the home or of the machine.
func ofConsole(args string) row {
	return row{args, "no console", asks, "only a Muster of one machine keeps"}
}

// rows has one for each verb.
var rows = map[string]row{
	"run": everywhere("--detach --code none -- true"), "apply": everywhere("-f job.yaml"), "suspend": everywhere("a"), "resume": everywhere("a"),
	"release": everywhere("a --force"), "delete": everywhere("a"),
	"get": everywhere(""), "describe": everywhere("a"), "logs": everywhere("a"), "why": everywhere("a"), "plan": everywhere("-f job.yaml"), "top": everywhere(""),
	"shell": everywhere("a -- true"), "cp": everywhere("a:/x ."), "kubectl": {"get pods", asks, "the socket of Muster has no path", asks},
	"credential": {"", "nobody listens", "the socket of Muster has no path", "nobody listens"},
	"version":    everywhere(""), "completion": never("bash"), "exit-codes": never(""), "simulate": never("--help"), "worker": never("--help"), "spark": never("--help"),
	"serve": never("--help"), "help": never(""), "node agent": never("--help"),
	"node fetch": never("--help"), "data mount-server": never("--help"), "pipeline evaluate": never("--help"),
	"console": never("--help"), "session list": ofConsole(""), "session revoke": ofConsole("i"),
	"token create": ofConsole("--for a --scope read"), "token list": ofConsole(""), "token revoke": ofConsole("i"),
	"pause": everywhere(""), "unpause": everywhere(""),
	"queue create": everywhere("q"), "queue list": everywhere(""), "queue describe": everywhere("q"), "queue edit": everywhere("q --weight 2"),
	"queue delete": everywhere("q"), "queue move": everywhere("a --to q"),
	"prune":   {"", asks, "does not work with the Muster that all users of this machine share", "looked in"},
	"install": {"", asks, forClusters, asks}, "uninstall": {"--yes", asks, forClusters, asks},
	"user add": {"ada", asks, usersOfBox, asks}, "user list": {"", asks, usersOfBox, asks}, "user remove": {"ada --yes", asks, usersOfBox, asks},
	"node add": {"n", asks, forClusters, asks}, "node remove": {"n", asks, forClusters, asks}, "node drain": everywhere("n"), "node list": everywhere(""),
	"data create": everywhere("set1"), "data put": everywhere("job.yaml set1"), "data get": everywhere("set1"), "data ls": everywhere(""), "data cat": everywhere("set1:/a"),
	"data diff": everywhere("set1"), "data log": everywhere("set1"), "data branch": everywhere("set1"), "data tag": everywhere("set1"), "data merge": everywhere("set1@b"),
	"data rm": everywhere("set1:/a --yes"), "data du": everywhere("set1"), "data verify": everywhere("set1"), "data trace": everywhere("set1"), "data open": everywhere("set1"),
	"data close": everywhere("set1"), "data mount": everywhere("set1 mnt"), "data gc": {"", asks, "it collects what nothing needs by itself", "its manager collects"},
	"data key create": everywhere(""), "data key list": everywhere(""), "data key delete": everywhere("k"), "data key adopt": {"", "is for clusters", forClusters, asks},
	"pipeline apply": everywhere("-f pipeline.yaml"), "pipeline list": everywhere(""), "pipeline runs": everywhere(""), "pipeline graph": everywhere("p"),
	"pipeline logs": everywhere("p"), "pipeline explain": everywhere("p"), "pipeline rerun": everywhere("p"), "pipeline wait": everywhere("p"),
	"pipeline pause": everywhere("p"), "pipeline resume": everywhere("p"), "pipeline cancel": everywhere("p"), "pipeline delete": everywhere("p --yes"),
	"pipeline results import": everywhere("job.yaml"), "pipeline results export": everywhere("p x.tar"),
	// The verbs of the machine look at the home, or ask the Muster of the machine.
	"down": {"", "none is running in", "is stopped by an administrator", "none is running in"}, "status": {"", alone, asks, alone}, "doctor": {"", alone, asks, asks},
}

// sources are a Muster of each kind. Each answers that it has nothing.
type sources struct {
	folder string
	env    map[string]map[string]string
	mu     sync.Mutex
	asked  []string
}

// ServeHTTP answers that there is nothing, and that a manager runs.
func (s *sources) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/leases/muster-scheduler") || strings.Contains(r.URL.Path, "/leases/") {
		_, _ = io.WriteString(w, "{}")
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	if r.URL.Path == "/version" {
		_, _ = io.WriteString(w, `{"major":"1","minor":"36","gitVersion":"v1.36.0"}`)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"nothing is here"}`)
}

func (s *sources) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.asked
	s.asked = nil
	return taken
}

const (
	jobManifest      = "apiVersion: muster.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: a}\nspec: {roles: [{name: worker, command: [\"true\"]}]}\n"
	pipelineManifest = "apiVersion: muster.dev/v1alpha1\nkind: Pipeline\nmetadata: {name: p}\nspec: {stages: [{name: s, command: [\"true\"], input: {dataset: d}}]}\n"
)

func openSources(t *testing.T) *sources {
	t.Helper()
	s := &sources{folder: t.TempDir()}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(s.folder, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	config := "apiVersion: v1\nkind: Config\nclusters: [{name: m, cluster: {server: \"" + server.URL + "\"}}]\n" +
		"contexts: [{name: m, context: {cluster: m}}]\ncurrent-context: m\n"
	for _, name := range []string{"home/.muster/kubeconfig", "cluster"} {
		write(name, config)
	}
	write("home/.muster/control-plane.json", "{}")
	write("work/job.yaml", jobManifest)
	write("work/pipeline.yaml", pipelineManifest)
	write("work/mnt/.keep", "")
	write("empty/.keep", "")
	socket, none := s.listen(t), filepath.Join(s.folder, "none.sock")
	empty := filepath.Join(s.folder, "empty")
	s.env = map[string]map[string]string{
		"home":    {"HOME": filepath.Join(s.folder, "home"), "MUSTER_SOCKET": none, "KUBECONFIG": ""},
		"box":     {"HOME": empty, "MUSTER_SOCKET": socket, "KUBECONFIG": ""},
		"cluster": {"HOME": empty, "MUSTER_SOCKET": none, "KUBECONFIG": filepath.Join(s.folder, "cluster")},
	}
	return s
}

// listen serves the socket of a machine.
func (s *sources) listen(t *testing.T) string {
	t.Helper()
	path := filepath.Join(s.folder, "run", "muster.sock")
	server, err := userapi.New(userapi.Options{Directory: account.New(account.Options{FilesOnly: true}), AllowUnknown: true, API: s, Door: s, Console: s})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := peer.Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return path
}

// machineVerbs are those that only the whole program links, but for up and the child.
var machineVerbs = []Verb{down.New, status.New, doctor.New}

// TestSources: each verb with each source, by its row. A verb without a row fails.
func TestSources(t *testing.T) {
	s := openSources(t)
	t.Chdir(filepath.Join(s.folder, "work"))
	for _, verb := range leaves(New(connection.New(terminal.Streams{Out: io.Discard, Err: io.Discard}, "test"), machineVerbs...)) {
		if _, listed := rows[verb]; !listed {
			t.Errorf("muster %s has no row: what does it do with the Muster of a machine's users?", verb)
		}
	}
	// With a kubeconfig of a cluster, console serves the pages here until ^C.
	s.check(t, "home", []string{"console", "--print"}, "no console")
	s.check(t, "box", []string{"console", "--print"}, asks)
	for verb, r := range rows {
		t.Run(verb, func(t *testing.T) {
			for source, want := range map[string]string{"home": r.home, "box": r.box, "cluster": r.cluster} {
				s.check(t, source, append(strings.Fields(verb), strings.Fields(r.args)...), want)
			}
		})
	}
}

// leaves are the verbs below a command.
func leaves(cmd *cobra.Command) (found []string) {
	if !cmd.HasSubCommands() {
		return []string{strings.TrimPrefix(cmd.CommandPath(), "muster ")}
	}
	for _, below := range cmd.Commands() {
		found = append(found, leaves(below)...)
	}
	return found
}

func (s *sources) check(t *testing.T, source string, args []string, want string) {
	t.Helper()
	for name, value := range s.env[source] {
		t.Setenv(name, value)
	}
	t.Setenv("MUSTER_HOME", "")
	s.take()
	var out bytes.Buffer
	code := Execute(t.Context(), args, terminal.Streams{In: &bytes.Buffer{}, Out: &out, Err: &out, NoColor: true}, machineVerbs...)
	asked := slices.DeleteFunc(s.take(), func(path string) bool { return path == "" })
	said := out.String()
	okay := len(asked) == 0
	switch want {
	case asks:
		okay = len(asked) > 0
	case alone:
	default:
		okay = okay && strings.Contains(said, want)
	}
	if !okay {
		t.Errorf("%s: muster %s: code %d, asked %v, want %q:\n%s", source, strings.Join(args, " "), code, asked, want, said)
	}
}
