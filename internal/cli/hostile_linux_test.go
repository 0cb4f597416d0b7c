package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/cli/terminal"
)

// hostile is a message as another tenant may write it: a clipboard, a title, a link, colours, a
// cursor that moves, C1 controls as characters, and text in the other direction.
const hostile = "数据 \x1b]52;c;ZXZpbA==\a\x1b]0;title\a\x1b]8;;http://evil\x1b\\here \x1b[31mred\x1b[8m \x1b[2J\x1b[9;9H\r\u009b2J\u202egnp \x7f"

// hostileServer answers as an API server whose every text is hostile, and returns a home whose
// kubeconfig leads there.
func hostileServer(t *testing.T) (home string) {
	t.Helper()
	log := "2026-11-27T10:00:00.000000001Z begin\n2026-11-27T10:00:01Z \r 50%|█▌  | \x1b[32m数据\x1b[0m\x1b[K " + hostile + "\xff\n"
	meta := map[string]any{"name": "mnist", "namespace": "team", "uid": "1", "annotations": map[string]string{"muster.dev/submitter": hostile}, "labels": map[string]string{"a": hostile}}
	pod := map[string]any{"kind": "Pod", "apiVersion": "v1",
		"metadata": map[string]any{"name": "mnist-worker-0", "namespace": "team", "uid": "2", "labels": map[string]string{"muster.dev/job": "mnist", "muster.dev/role": "worker", "muster.dev/index": "0"}},
		"spec":     map[string]any{"nodeName": hostile, "containers": []any{map[string]any{"name": "main", "image": hostile}}},
		"status": map[string]any{"phase": "Failed", "message": hostile, "reason": hostile, "containerStatuses": []any{map[string]any{"name": "main",
			"state": map[string]any{"terminated": map[string]any{"exitCode": 1, "reason": hostile, "message": hostile}}}}}}
	answers := map[string]any{
		"/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs/mnist": map[string]any{"kind": "TrainingJob", "apiVersion": "muster.dev/v1alpha1", "metadata": meta,
			"spec":   map[string]any{"queue": hostile, "roles": []any{map[string]any{"name": "worker", "script": hostile, "args": []string{hostile}}}},
			"status": map[string]any{"phase": "Failed", "message": hostile, "evictedFor": hostile, "roles": []any{map[string]any{"name": "worker", "wanted": 1, "failed": 1}}}},
		"/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs": map[string]any{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{},
			"columnDefinitions": []any{map[string]any{"name": "Name", "type": "string"}, map[string]any{"name": hostile, "type": "string"}},
			"rows":              []any{map[string]any{"cells": []any{"mnist", hostile}, "object": map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}}}},
		"/api/v1/namespaces/team/pods":                map[string]any{"kind": "PodList", "apiVersion": "v1", "metadata": map[string]any{}, "items": []any{pod}},
		"/api/v1/namespaces/team/pods/mnist-worker-0": pod,
		"/api/v1/namespaces/team/events": map[string]any{"kind": "EventList", "apiVersion": "v1", "metadata": map[string]any{}, "items": []any{map[string]any{
			"metadata": map[string]any{"name": "e", "namespace": "team"}, "involvedObject": map[string]any{"kind": "TrainingJob", "name": "mnist", "uid": "1"},
			"type": "Warning", "reason": hostile, "message": hostile, "lastTimestamp": "2026-11-27T10:00:00Z"}}},
		"/api":  map[string]any{"kind": "APIVersions", "versions": []string{"v1"}},
		"/apis": map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/log") {
			_, _ = io.WriteString(w, log)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		answer, known := answers[r.URL.Path]
		if !known || r.Method != http.MethodGet {
			w.WriteHeader(http.StatusForbidden)
			answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": hostile}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	home = t.TempDir()
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"team"}}],"users":[{"name":"u","user":{}}]}`, server.URL)
	if err := os.WriteFile(filepath.Join(home, "kubeconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

// hostileCommands print texts of the server. JSON and YAML have their own escapes.
var hostileCommands = []struct {
	line string
	// shows is in the output, as a sign that the message was printed.
	shows string
}{
	{"get", `\x1b]52;c;`},
	{"get -o wide", `^[]52;c;`},
	{"get mnist -o json", `\u202egnp \u007f`},
	{"get mnist -o yaml", `\e]52;c;`},
	{"describe mnist", `\x1b]52;c;`},
	{"describe pod mnist-worker-0", `]52;c;`},
	{"why mnist", `\x1b]52;c;`},
	{"delete mnist", `\x1b]52;c;`},
	{"data ls mnist\x1b]0;x\a", `\x1b]0;x`},
	{"mnist\x1b]0;x\a", `\x1b]0;x`},
	{"get --mnist\x1b]0;x\a", `\x1b]0;x`},
}

// TestHostileMessages: no control character in texts of a server and its tenants reaches a
// terminal, nor a pager.
func TestHostileMessages(t *testing.T) {
	t.Setenv("MUSTER_HOME", hostileServer(t))
	t.Setenv("NO_COLOR", "")
	for _, c := range hostileCommands {
		t.Run(strings.ReplaceAll(c.line, "\x1b", "^"), func(t *testing.T) {
			var piped bytes.Buffer
			Execute(t.Context(), strings.Fields(c.line), terminal.Streams{In: strings.NewReader(""), Out: &piped, Err: &piped})
			shown := onTerminal(t, strings.Fields(c.line))
			for where, text := range map[string]string{"a pipe": piped.String(), "a terminal": ours.ReplaceAllString(strings.ReplaceAll(shown, "\r\n", "\n"), "")} {
				if !strings.Contains(text, c.shows) {
					t.Errorf("to %s, without %s: %q", where, c.shows, text)
				}
				if where == "a pipe" && strings.HasSuffix(c.line, "yaml") {
					text = strings.ReplaceAll(text, "\u202e", "") // programs read it
				}
				if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && terminal.Hidden(r) }); i >= 0 || !utf8.ValidString(text) {
					t.Errorf("to %s, with a control character: %q", where, text)
				}
			}
		})
	}
}

// ours are the colours of Style.
var ours = regexp.MustCompile(`\x1b\[(0|1|2|3[1-6])m`)

// TestHostileLogs: the output of a job is unchanged in a pipe. On a terminal it has colours and
// the progress bars of one line.
func TestHostileLogs(t *testing.T) {
	t.Setenv("MUSTER_HOME", hostileServer(t))
	var piped bytes.Buffer
	Execute(t.Context(), []string{"logs", "mnist"}, terminal.Streams{In: strings.NewReader(""), Out: &piped, Err: io.Discard})
	if want := "begin\n\r 50%|█▌  | \x1b[32m数据\x1b[0m\x1b[K " + hostile + "\xff\n"; piped.String() != want {
		t.Errorf("a pipe gets %q, want %q", piped.String(), want)
	}
	want := "begin\r\n\r 50%|█▌  | \x1b[32m数据\x1b[0m\x1b[K 数据 " + `\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\x1b]8;;http://evil\x1b\here ` +
		"\x1b[31mred\x1b[8m " + `\x1b[2J\x1b[9;9H` + "\r" + `\u009b2J\u202egnp \x7f` + "\uFFFD\r\n"
	if shown := onTerminal(t, []string{"logs", "mnist"}); shown != want {
		t.Errorf("a terminal shows %q, want %q", shown, want)
	}
}

// TestDataEndsOnATerminal: a command writes the last bytes of its data to a terminal, also where they
// are the beginning of a sequence.
func TestDataEndsOnATerminal(t *testing.T) {
	master, slave := openTerminal(t)
	streams := terminal.Streams{Out: slave, Err: slave}.Guarded()
	for _, part := range []string{"数据\x1b", "[31mred \xe6\x95"} {
		if _, err := io.WriteString(terminal.Data(streams.Out), part); err != nil {
			t.Fatal(err)
		}
	}
	streams.Flush()
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	if shown, _ := io.ReadAll(master); string(shown) != "数据\x1b[31mred \uFFFD\uFFFD" {
		t.Errorf("a terminal shows %q", shown)
	}
}

// onTerminal runs a command on a terminal and returns the bytes that the terminal receives.
func onTerminal(t *testing.T, args []string) string {
	t.Helper()
	master, slave := openTerminal(t)
	read := make(chan string)
	go func() {
		var text bytes.Buffer
		_, _ = io.Copy(&text, master) // ends with EIO when the other side is closed
		read <- text.String()
	}()
	Execute(t.Context(), args, terminal.Streams{In: strings.NewReader(""), Out: slave, Err: slave})
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	return <-read
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
