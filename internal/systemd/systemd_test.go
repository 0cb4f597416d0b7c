package systemd

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnit(t *testing.T) {
	for name, c := range map[string]struct {
		unit Unit
		want string
	}{
		"usual":         {Unit{"/usr/local/bin/muster", []string{"up", "--system"}}, "ExecStart=/usr/local/bin/muster up --system\n"},
		"a space":       {Unit{"/opt/my tools/muster", []string{"up"}}, "ExecStart=\"/opt/my tools/muster\" up\n"},
		"specifiers":    {Unit{"/opt/%n/muster", []string{"up", "--config", "/etc/$HOME"}}, "ExecStart=\"/opt/%%n/muster\" up --config \"/etc/$$HOME\"\n"},
		"quotation":     {Unit{`/opt/a"b\c/muster`, nil}, `ExecStart="/opt/a\"b\\c/muster"` + "\n"},
		"a second verb": {Unit{"/bin/muster", []string{"up; reboot"}}, "ExecStart=/bin/muster \"up; reboot\"\n"},
		"empty":         {Unit{"/bin/muster", []string{""}}, "ExecStart=/bin/muster \"\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := c.unit.Text()
			if err != nil || !strings.Contains(text, c.want) {
				t.Errorf("%v\n%s\nwant %s", err, text, c.want)
			}
		})
	}
	for name, unit := range map[string]Unit{
		"relative":     {Program: "muster"},
		"a line break": {Program: "/bin/muster", Args: []string{"up\nExecStartPre=/bin/true"}},
		"control":      {Program: "/bin/mus\x1bter"},
	} {
		if text, err := unit.Text(); err == nil {
			t.Errorf("%s: no error:\n%s", name, text)
		}
	}
}

// TestUnitIsValid asks systemd, where it is installed, and else checks the form of each line.
func TestUnitIsValid(t *testing.T) {
	program := filepath.Join(t.TempDir(), "a muster 100%")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := Unit{program, []string{"up", "--system"}}.Text()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, _, isSetting := strings.Cut(line, "="); line != "" && line[0] != '#' && line[0] != '[' && (!isSetting || strings.ContainsAny(name, " \t")) {
			t.Errorf("no setting: %q", line)
		}
	}
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return
	}
	file := filepath.Join(t.TempDir(), Name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), verify, "verify", "--man=no", "--recursive-errors=no", file).CombinedOutput(); err != nil {
		t.Errorf("systemd refuses the unit: %v\n%s", err, out)
	}
}

func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	server, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	if err := Notify(t.Context(), path, Ready, Status("two\nlines")); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 200)
	n, err := server.Read(buffer)
	if want := "READY=1\nSTATUS=two lines"; err != nil || string(buffer[:n]) != want {
		t.Errorf("%q, %v; want %q", buffer[:n], err, want)
	}
	if err := Notify(context.Background(), "", Ready); err != nil {
		t.Error(err)
	}
	for _, socket := range []string{"relative", filepath.Join(t.TempDir(), "gone")} {
		if err := Notify(t.Context(), socket, Ready); err == nil {
			t.Errorf("%s: no error", socket)
		}
	}
}

// machine makes a machine with a systemctl that notes its arguments, and fails for the words in fails.
func machine(t *testing.T, fails string) (m *Manager, asked func() string) {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"run/systemd/system", folder, "bin"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	notes := filepath.Join(root, "notes")
	script := "#!/bin/sh\nshift\necho \"$*\" >>" + notes + "\ncase \"$*\" in " + fails + ") echo Failed to do it >&2; exit 1;; esac\n"
	if err := os.WriteFile(filepath.Join(root, "bin/systemctl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	m, err := open(root)
	if err != nil {
		t.Fatal(err)
	}
	return m, func() string {
		text, _ := os.ReadFile(notes)
		_ = os.Remove(notes)
		return string(text)
	}
}

func TestInstallAndRemove(t *testing.T) {
	m, asked := machine(t, "never")
	unit := Unit{"/usr/local/bin/muster", []string{"up", "--system"}}
	for _, step := range []struct {
		now     bool
		changed bool
		want    string
	}{
		{false, true, "daemon-reload\nenable muster.service\n"},
		{true, false, "daemon-reload\nenable --now muster.service\n"},
	} {
		changed, err := m.Install(t.Context(), unit, step.now)
		if got := asked(); err != nil || changed != step.changed || got != step.want {
			t.Errorf("now %t: %t, %v, %q; want %t, %q", step.now, changed, err, got, step.changed, step.want)
		}
	}
	if info, err := os.Stat(m.File()); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	if found, err := m.Remove(t.Context()); err != nil || !found || asked() != "disable --now muster.service\ndaemon-reload\n" {
		t.Errorf("removal: %t, %v", found, err)
	}
	if found, err := m.Remove(t.Context()); err != nil || found || asked() != "" {
		t.Errorf("second removal: %t, %v", found, err)
	}
}

// TestRefusals: a refusal of systemctl is in the error, and a unit stays if its service does not stop.
func TestRefusals(t *testing.T) {
	m, _ := machine(t, "enable*")
	if _, err := m.Install(t.Context(), Unit{Program: "/bin/muster"}, false); err == nil || !strings.Contains(err.Error(), "systemctl enable muster.service: exit status 1: Failed to do it") {
		t.Errorf("installation: %v", err)
	}
	m, _ = machine(t, "disable*")
	if _, err := m.Install(t.Context(), Unit{Program: "/bin/muster"}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Remove(t.Context()); err == nil {
		t.Error("the removal has no error")
	}
	if _, err := os.Stat(m.File()); err != nil {
		t.Errorf("the unit of a service that did not stop: %v", err)
	}
	if _, err := open(t.TempDir()); !errors.Is(err, ErrAbsent) {
		t.Errorf("a machine without systemd: %v", err)
	}
}
